//! Orders of programs: JSON with the token as a bearer, answered with JSON, as the commands print it.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};

use super::asked::{OrderRequest, lock};
use super::desk::OperatorDesk;
use super::operating::Operating;
use super::origin::{Peer, RequestOrigin};
use super::request::{Refused, whole};
use super::{confirm, login};
use crate::monitor::alerting::View;
use crate::monitor::answers::{json, plain};
use crate::output::{OrderReport, one_line};

/// Carries an order out, and answers with what came of it.
pub(super) async fn order(
    State(desk): State<Arc<OperatorDesk>>,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let caller = RequestOrigin::new(peer, request.headers());
    match ordered(&desk, &caller, &name, request).await {
        Ok(done) => json(StatusCode::OK, &done),
        Err(refused) => {
            let mut answer = plain(refused.status, one_line(&refused.text) + "\n");
            if refused.status == StatusCode::UNAUTHORIZED {
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            refused.say_when(&mut answer);
            answer
        }
    }
}

async fn ordered(
    desk: &OperatorDesk,
    caller: &RequestOrigin,
    name: &str,
    request: Request,
) -> Result<OrderReport, Refused> {
    let (operating, what) = (&desk.operating, format!("an order to {name}, by {} with a token", caller.name()));
    let refuse = |refused: Refused| {
        operating.log_refusal(&what, &refused);
        refused
    };
    operating.require(caller, false).map_err(refuse)?;
    let token = bearer(request.headers()).ok_or_else(|| {
        let text = "An order needs the token that the monitor was started with: Authorization: Bearer TOKEN";
        refuse(Refused::new(StatusCode::UNAUTHORIZED, text))
    })?;
    operating.check_token(&token, StatusCode::UNAUTHORIZED).map_err(refuse)?;
    let lock = lock(name).map_err(|why| refuse(Refused::bad(why)))?;
    let body = whole(request.into_body()).await.map_err(refuse)?;
    let asked: OrderRequest = serde_json::from_slice(&body)
        .map_err(|error| refuse(Refused::bad(format!("the body is no order in JSON: {error}"))))?;
    let order = asked.order().map_err(|why| {
        let what = format!("{} {lock}, ordered by {} with a token", asked.order.as_str(), caller.name());
        let refused = Refused::bad(why);
        operating.log_refusal(&what, &refused);
        refused
    })?;
    operating.begin(caller, "with a token", lock, order)?.end().await
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// The paths of operators, all of the depth of the page's but the one for programs.
pub(crate) fn routes(view: Arc<View>, operating: Arc<Operating>) -> Router {
    Router::new()
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/order", get(confirm::page).post(confirm::order))
        .route("/api/locks/{*name}", post(order))
        .with_state(Arc::new(OperatorDesk { view, operating }))
}
