//! The page that asks before an order, and the order itself.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use lockkeeper::{ContenderInfo, QueueName};
use serde::Deserialize;
use tokio::time::timeout;

use super::asked::{OrderRequest, OrderWord, lock};
use super::desk::{DeskState, OperatorDesk};
use super::operating::{Operating, said};
use super::origin::{Peer, RequestOrigin};
use super::request::Refused;
use super::request::form;
use super::sessions::SessionKey;
use super::under_way::UnderWay;
use crate::args::FreezableKind;
use crate::monitor::page::{Escaped, QueryValue, capital, named};
use crate::ordering::OperatorOrder;

/// How long a page is kept waiting for what comes of an order; a freeze may take longer, and then its outcome is told
/// later.
const ANSWER_AFTER: Duration = Duration::from_secs(5);

/// How long a freeze may wait, as its form offers it: in seconds, and in words.
const WAITS: [(u64, &str); 5] =
    [(0, "Only if it is free now"), (10, "10 seconds"), (60, "1 minute"), (600, "10 minutes"), (3_600, "1 hour")];

/// Asks as what a lock is used that nothing uses now.
const KINDS: &str = "<p><label for=\"kind\">As what it is used: clients that use it as another kind fail, and do not \
                     wait</label><select id=\"kind\" name=\"kind\" required><option value=\"\">Choose</option>\
                     <option value=\"mutex\">Mutex</option><option value=\"rwlock\">Read/write lock</option>\
                     <option value=\"semaphore\">Semaphore</option><option value=\"election\">Election</option>\
                     </select></p>";

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Target {
    name: Option<String>,
    order: Option<OrderWord>,
    contender: Option<String>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Confirmed {
    secret: String,
    reason: Option<String>,
    /// How long a freeze waits, in seconds.
    wait: Option<u64>,
    /// As what it takes a lock whose queue does not tell.
    kind: Option<FreezableKind>,
}

impl Target {
    /// Reads it from the query of a request.
    pub(super) fn of(query: Result<Query<Self>, QueryRejection>) -> Result<Self, Refused> {
        query.map(|Query(target)| target).map_err(|refusal| Refused::bad(refusal.body_text()))
    }

    /// Returns it as a query, with its `?`; empty if there is none.
    pub(super) fn query(&self) -> String {
        let order = self.order.map(OrderWord::as_str);
        let parts = [
            ("name", self.name.as_deref()),
            ("order", order),
            ("contender", self.contender.as_deref()),
            ("token", self.token.as_deref()),
        ];
        let mut query = String::new();
        for (key, value) in parts.iter().filter_map(|(key, value)| Some((key, (*value)?))) {
            let _ = write!(query, "{}{key}={}", if query.is_empty() { '?' } else { '&' }, QueryValue(value));
        }
        query
    }

    /// Where it is asked for, beside the page that asks for the token.
    pub(super) fn place(&self) -> String {
        match self.order {
            Some(_) => format!("order{}", self.query()),
            None => "./".to_owned(),
        }
    }

    /// Returns the lock, and what is asked for, with what a form adds to it.
    fn asked(&self, form: Option<&Confirmed>) -> Result<(QueueName, OrderRequest), Refused> {
        let name = self.name.as_deref().ok_or_else(|| Refused::bad("The order names no lock."))?;
        let lock = lock(name).map_err(Refused::bad)?;
        let order = self.order.ok_or_else(|| Refused::bad("It is not said what is to be done."))?;
        let wait = form.and_then(|form| form.wait).filter(|_| order == OrderWord::Freeze);
        let asked = OrderRequest {
            order,
            contender: self.contender.clone(),
            token: self.token.clone(),
            reason: form.and_then(|form| form.reason.clone()),
            wait_ms: wait.map(|seconds| seconds.saturating_mul(1_000)),
            kind: form.and_then(|form| form.kind),
        };
        Ok((lock, asked))
    }
}

/// Asks before an order; who is not logged in is asked for the token first.
pub(super) async fn page(
    State(desk): DeskState,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    target: Result<Query<Target>, QueryRejection>,
) -> Response {
    let caller = RequestOrigin::new(peer, &headers);
    let asked = Target::of(target).and_then(|target| {
        desk.operating.require_way(&caller)?;
        let (lock, asked) = target.asked(None)?;
        Ok((target, lock, asked))
    });
    let (target, lock, asked) = match asked {
        Ok(asked) => asked,
        Err(refused) => return desk.refuse(&caller, "a page", &refused, None),
    };
    let session = desk.operating.session(&caller);
    let Some(secret) = session.and_then(|session| desk.operating.secret(&session)) else {
        return (StatusCode::SEE_OTHER, [(LOCATION, format!("login{}", target.query()))]).into_response();
    };
    let seen = desk.seen(&lock, asked.contender.as_deref());
    let main = asking(&target, &lock, &asked, desk.is_idle(&lock), seen.as_ref(), &secret, None);
    let title = format!("{} {}", capital(asked.order.as_str()), lock.as_str());
    desk.page(StatusCode::OK, &title, &caller, &main)
}

/// Carries out what a form orders, and leads to the lock's page, which tells what came of it.
pub(super) async fn order(
    State(desk): DeskState,
    Extension(peer): Extension<Peer>,
    target: Result<Query<Target>, QueryRejection>,
    request: Request,
) -> Response {
    let caller = RequestOrigin::new(peer, request.headers());
    let target = match Target::of(target) {
        Ok(target) => target,
        Err(refused) => return desk.refuse(&caller, "an order", &refused, None),
    };
    let (lock, asked, session, secret) = match confirmed(&desk, &caller, &target, request).await {
        Ok(confirmed) => confirmed,
        Err(refused) => return desk.refuse(&caller, &what(&target), &refused, None),
    };
    match asked.order() {
        Ok(order) => carried_out(&desk, &caller, &session, lock, order).await,
        Err(why) => {
            let (refused, seen) = (Refused::bad(why), desk.seen(&lock, asked.contender.as_deref()));
            let is_idle = desk.is_idle(&lock);
            let again = asking(&target, &lock, &asked, is_idle, seen.as_ref(), &secret, Some(&refused));
            desk.refuse(&caller, &what(&target), &refused, Some(&again))
        }
    }
}

/// Reads what was confirmed, and by which session, if it may order anything; with the secret of its forms.
async fn confirmed(
    desk: &OperatorDesk,
    caller: &RequestOrigin,
    target: &Target,
    request: Request,
) -> Result<(QueueName, OrderRequest, SessionKey, String), Refused> {
    desk.operating.require(caller, true)?;
    let confirmed: Confirmed = form(request).await?;
    let session = desk.operating.require_form(caller, &confirmed.secret)?;
    let (lock, asked) = target.asked(Some(&confirmed))?;
    Ok((lock, asked, session, confirmed.secret))
}

/// Carries an order out, and leads to the page that tells what came of it, or will tell it.
async fn carried_out(
    desk: &OperatorDesk,
    caller: &RequestOrigin,
    session: &SessionKey,
    lock: QueueName,
    order: OperatorOrder,
) -> Response {
    let mut under_way = match desk.operating.begin(caller, "on the page", lock.clone(), order.clone()) {
        Ok(under_way) => under_way,
        Err(refused) => return desk.tell_undone(caller, &lock, &refused),
    };
    let told = match timeout(ANSWER_AFTER, under_way.end()).await {
        Ok(Ok(done)) => desk.operating.tell(session, done.text()),
        Ok(Err(refused)) => return desk.tell_undone(caller, &lock, &refused),
        Err(_) => {
            let number = desk.operating.tell(session, under_way_text(&order, &lock));
            if let Some(number) = number {
                tokio::spawn(told_later(Arc::clone(&desk.operating), *session, number, under_way));
            }
            number
        }
    };
    let told = told.map(|number| format!("&told={number}")).unwrap_or_default();
    let place = format!("lock?name={}{told}", QueryValue(lock.as_str()));
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

async fn told_later(operating: Arc<Operating>, session: SessionKey, number: u64, mut under_way: UnderWay) {
    let text = match under_way.end().await {
        Ok(done) => done.text(),
        Err(refused) => refused.text,
    };
    operating.tell_again(&session, number, text);
}

/// Names an order for the log that may be refused.
fn what(target: &Target) -> String {
    match target.asked(None).map(|(lock, asked)| (asked.order, asked.order(), lock)) {
        Ok((_, Ok(order), lock)) => said(&lock, &order, "a form", "on the page"),
        Ok((word, Err(_), lock)) => format!("{} {lock}, ordered by a form on the page", word.as_str()),
        Err(_) => "an order on the page".to_owned(),
    }
}

fn under_way_text(order: &OperatorOrder, lock: &QueueName) -> String {
    match order {
        OperatorOrder::Freeze { wait, .. } => format!(
            "The freeze of {lock} is in its queue, and waits for up to {wait:?} until the lock is given back. Load \
             this page anew to see what came of it."
        ),
        _ => format!("The service has not answered yet: whether {lock} has changed, its queue shows."),
    }
}

/// Says what an order does, as its command does.
const fn effect(word: OrderWord) -> &'static str {
    match word {
        OrderWord::Revoke => {
            "The holder is asked to give the lock up, and no other contender is. It is a request: `lockkeeper run` \
             ends its command for it, unless it was started with --on-revoke ignore; a program hears it from its guard."
        }
        OrderWord::Break => {
            "The lock is taken away from this holder, without its consent, and the next in line is granted it at once. \
             What the holder runs may go on for a moment beside that: only fencing tokens keep it from doing harm. \
             Better ask first: revoke."
        }
        OrderWord::Freeze => {
            "All contenders are kept out until the lock is thawed, also after the monitor has ended. It queues like \
             any other contender, so those who hold the lock keep it until they give it back; those who come later \
             wait, and are shown the reason."
        }
        OrderWord::Thaw => "What freezes the lock is removed, and contenders are granted it again.",
    }
}

/// The form of an order, with everything that it is about.
fn asking(
    target: &Target,
    lock: &QueueName,
    asked: &OrderRequest,
    is_idle: bool,
    seen: Option<&ContenderInfo>,
    secret: &str,
    refused: Option<&Refused>,
) -> String {
    let (word, name) = (asked.order, Escaped(lock.as_str()));
    let mut text = format!("<h1>{} {name}?</h1>", capital(word.as_str()));
    if let Some(refused) = refused {
        let _ = write!(text, "<p class=\"told bad\" role=\"alert\">{}</p>", Escaped(&refused.text));
    }
    let _ = write!(
        text,
        "<form class=\"card order\" method=\"post\" action=\"order{}\"><input type=\"hidden\" name=\"secret\" \
         value=\"{}\"><dl><dt>Lock</dt><dd>{name}</dd>",
        Escaped(&target.query()),
        Escaped(secret)
    );
    if let Some(contender) = &asked.contender {
        let who = seen.map(named).map_or_else(
            || "not in the queue any more".to_owned(),
            |(who, rest)| Escaped(&format!("{who} {rest}")).to_string(),
        );
        let token = asked.token.as_deref().unwrap_or("not shown");
        let _ = write!(
            text,
            "<dt>{}</dt><dd>{who}</dd><dt>Contender</dt><dd><code>{}</code></dd><dt>Token</dt><dd>{}</dd>",
            if word == OrderWord::Thaw { "Frozen by" } else { "Holder" },
            Escaped(contender),
            Escaped(token)
        );
    }
    let _ = write!(
        text,
        "</dl><p>{}</p>{}<p><button>{}</button> <a href=\"lock?name={}\">Do nothing</a></p></form>",
        Escaped(effect(word)),
        fields(word, is_idle),
        capital(word.as_str()),
        QueryValue(lock.as_str())
    );
    text
}

/// What the form of an order asks for, and warns of. The queue of an idle lock does not tell as what it is used.
fn fields(word: OrderWord, is_idle: bool) -> String {
    let reason = |hint: &str, required: &str| {
        format!(
            "<p><label for=\"reason\">Reason: {hint}</label><input id=\"reason\" name=\"reason\" type=\"text\" \
             maxlength=\"500\" autocomplete=\"off\"{required}></p>"
        )
    };
    match word {
        OrderWord::Thaw => String::new(),
        OrderWord::Break => "<p class=\"told bad\"><b>Two may work under the lock for a moment.</b></p>".to_owned(),
        OrderWord::Revoke => reason("why, for the holder; may be left out", ""),
        OrderWord::Freeze => {
            let option = |(seconds, shown): &(u64, &str)| format!("<option value=\"{seconds}\">{shown}</option>");
            format!(
                "{}{}<p><label for=\"wait\">How long it may wait until the lock is given back</label>\
                 <select id=\"wait\" name=\"wait\">{}</select></p>",
                reason("why, for the waiters", " required"),
                if is_idle { KINDS } else { "" },
                WAITS.iter().map(option).collect::<String>()
            )
        }
    }
}
