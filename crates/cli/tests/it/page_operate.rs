//! `monitor --operate`: orders on the page, in a real browser and without one. Orders of programs are in
//! `monitor_operate`.

use lockkeeper_faults::browser::{Browser, axe_availability};
use serde_json::{Value, json};

use crate::crossing::Crossing;
use crate::monitor::{Answer, Monitor, ask_at};
use crate::page::browser;
use crate::support::{Place, Running, can_run, eventually};

/// A token of operators.
pub(crate) const TOKEN: &str = "2f4c9a0b7d1e68355a0c4be1f9d27a64";

/// Starts a monitor that carries out orders.
pub(crate) fn operated(place: &Place, address: &str, options: &[&str]) -> Monitor {
    let file = token_file(place, TOKEN);
    Monitor::start_at(place, address, &[&["--operate", "--operate-token-file", &file], options].concat())
}

/// Writes a token that only its owner can read.
pub(crate) fn token_file(place: &Place, token: &str) -> String {
    let path = place.file("operate-token", &format!("{token}\n"));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What a browser sends along from a page of the monitor.
fn ours(address: &str) -> Vec<String> {
    vec![
        format!("Host: {address}"),
        format!("Origin: http://{address}"),
        "Content-Type: application/x-www-form-urlencoded".to_owned(),
    ]
}

pub(crate) fn log_in(address: &str, token: &str) -> Answer {
    ask_at(address, "POST /login", &ours(address), &format!("token={token}"))
}

/// A session of a browser, without the browser.
pub(crate) struct Session {
    address: String,
    cookie: String,
}

impl Session {
    pub(crate) fn open(monitor: &Monitor) -> Self {
        let answer = log_in(monitor.address(), TOKEN);
        assert_eq!((answer.status, answer.header("location")), (303, Some("./")), "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=28800"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.contains("Secure"), "it is plain HTTP over loopback");
        let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
        Self { address: monitor.address().to_owned(), cookie }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        ask_at(&self.address, &format!("GET {path}"), &[format!("Host: {}", self.address), self.cookie.clone()], "")
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let lines = [ours(&self.address), vec![self.cookie.clone()]].concat();
        ask_at(&self.address, &format!("POST {path}"), &lines, body)
    }

    /// Follows the link to an order on a lock's page: where its form is sent to, and what it carries.
    fn form(&self, lock: &str, order: &str) -> (String, String) {
        let link = eventually("the order is offered", || {
            let page = self.get(&format!("/lock?name={lock}"));
            assert_eq!(page.status, 200, "{page:?}");
            attributes(&page.body, "href").find(|link| link.contains(&format!("order={order}"))).map(plain)
        });
        let page = self.get(&format!("/{link}"));
        assert_eq!(page.status, 200, "{page:?}");
        let action = attributes(&page.body, "action").find(|action| action.starts_with("order?")).map(plain).unwrap();
        // All forms of a session carry the same.
        let secret = attributes(&page.body, "value").next().unwrap().to_owned();
        assert_eq!(secret.len(), 32, "{page:?}");
        (format!("/{action}"), format!("secret={secret}"))
    }
}

/// The values of an attribute of this name, in their order.
fn attributes<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let values: Vec<_> = page.split(&format!(" {name}=\"")).skip(1).collect();
    values.into_iter().map(|rest| rest.split('"').next().unwrap())
}

/// A link as a browser reads it.
fn plain(link: &str) -> String {
    link.replace("&amp;", "&")
}

/// Waits until a script in the page returns something; while another page is loaded, it cannot run.
fn until(browser: &Browser, what: &str, script: &str) -> Value {
    eventually(what, || browser.run(script).ok().filter(|seen| !seen.is_null() && *seen != json!(false)))
}

fn click(browser: &Browser, what: &str, script: &str) {
    until(browser, what, &format!("const it = {script}; it?.click(); return Boolean(it)"));
}

#[test]
fn a_revoke_on_the_page_ends_a_run_as_the_command_does() {
    let Some(browser) = browser() else { return };
    let place = Place::new();
    let script = "trap 'exit 7' TERM; echo held; while :; do sleep 0.01; done";
    let holder = Running::start(&mut place.command(&["run", "reports/nightly", "--", "sh", "-c", script]));
    assert_eq!(holder.line(), "held\n");
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    browser.open(&format!("http://{}/lock?name=reports%2Fnightly", monitor.address())).unwrap();
    click(&browser, "the order", "document.querySelector('#queue a[href*=\"order=revoke\"]')");
    until(&browser, "the login", "return Boolean(document.querySelector('#token'))");
    let typed = format!("document.querySelector('#token').value = '{TOKEN}'; return true");
    until(&browser, "the token", &typed);
    click(&browser, "the login", "document.querySelector('form.order button')");
    let asked = until(&browser, "the question", "return document.querySelector('#reason') && document.body.innerText");
    let asked = asked.as_str().unwrap();
    if can_run(axe_availability()) {
        assert_eq!(browser.obstacles().unwrap(), []);
    }
    assert!(asked.contains("Revoke reports/nightly?") && asked.contains(&format!("pid {}", holder.id())), "{asked}");
    let token = place.token("reports/nightly");
    assert!(asked.contains(&token), "{token} in {asked}");
    until(&browser, "the reason", "document.querySelector('#reason').value = 'deploying'; return true");
    click(&browser, "the order", "document.querySelector('form.order button')");
    let told = until(&browser, "the outcome", "return document.querySelector('.told')?.textContent");
    assert!(told.as_str().unwrap().contains(" sh to give it up"), "{told}");
    let ended = holder.end();
    assert_eq!(ended.code, Some(7), "{ended:?}");
    let said = "lockkeeper: reports/nightly: asked to give the lock up (deploying); ending the command";
    assert!(ended.stderr.lines().any(|line| line == said), "{ended:?}");
    until(&browser, "the end", "return document.body.innerText.includes('Nothing holds it')");
    let (_, said) = monitor.stop();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("revoke reports/nightly")).collect();
    assert!(
        matches!(lines.as_slice(), [begun, line] if line.contains("ordered by 127.0.0.1 on the page: ")
            && line.contains(&format!("with token {token}")) && line.contains(": asked ")
            && begun.ends_with(": begins")),
        "{said}"
    );
}

#[test]
fn a_page_that_is_old_hits_no_other_holder() {
    let place = Place::new();
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    let session = Session::open(&monitor);
    let first = place.hold("door");
    let forms = ["revoke", "break"].map(|order| session.form("door", order));
    first.end();
    let second = place.hold("door");
    for (action, secret) in &forms {
        let answer = session.post(action, &format!("{secret}&reason="));
        assert_eq!(answer.status, 409, "{answer:?}");
        let says = format!("pid {}", second.process.id());
        assert!(answer.body.contains("Nothing was done") && answer.body.contains(&says), "{answer:?}");
    }
    let shown = place.show("door");
    let holder = &shown["contenders"][0];
    assert_eq!((&holder["owner"]["pid"], &holder["revocation"]), (&json!(second.process.id()), &Value::Null));
    second.end();
    let (_, said) = monitor.stop();
    assert_eq!(said.lines().filter(|line| line.contains("not done: ")).count(), 2, "{said}");
}

#[test]
fn a_lock_is_frozen_thawed_and_broken_on_the_page_and_each_outcome_is_told_there() {
    let place = Place::new();
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    let session = Session::open(&monitor);
    let order = |order: &str, more: &str| {
        let (action, secret) = session.form("door", order);
        let answer = session.post(&action, &format!("{secret}{more}"));
        assert_eq!(answer.status, 303, "{answer:?}");
        let place = answer.header("location").unwrap().to_owned();
        let page = session.get(&format!("/{place}"));
        let told = page.body.split_once("<p class=\"told\" role=\"status\">");
        let told = told.map(|(_, rest)| rest.split("</p>").next().unwrap().to_owned());
        let stranger = ask_at(&session.address, &format!("GET /{place}"), &[format!("Host: {}", session.address)], "");
        assert!(stranger.status == 200 && !stranger.body.contains("class=\"told\""), "{stranger:?}");
        told.unwrap_or_else(|| panic!("{page:?}"))
    };
    let (action, secret) = session.form("door", "freeze");
    assert!(session.get(&action).body.contains("<select id=\"kind\""), "nothing tells as what it is used");
    let refused = session.post(&action, &format!("{secret}&reason=+&wait=0"));
    assert!(refused.status == 400 && refused.body.contains("needs a reason"), "{refused:?}");
    let empty = session.post(&action, &format!("{secret}&reason=x&wait=0&kind="));
    assert_eq!(empty.status, 422, "the kind is to be chosen: {empty:?}");
    assert!(order("freeze", "&reason=moving+%3Cdisks%3E&wait=0&kind=mutex").contains("moving &lt;disks&gt;"));
    assert_eq!(place.show("door")["contenders"][0]["frozen"], "moving <disks>");
    let again = session.post(&action, &format!("{secret}&reason=again&wait=0"));
    assert!(again.status == 409 && again.body.contains("is frozen already"), "{again:?}");
    assert!(order("thaw", "").contains(" is thawed; it was frozen by "));
    let mut holder = place.hold("door");
    let busy = session.post(&action, &format!("{secret}&reason=late&wait=0"));
    assert!(busy.status == 409 && busy.body.contains("was not given back"), "{busy:?}");
    assert!(order("break", "").contains(" is broken; it was held by "));
    assert_eq!(holder.process.code(), Some(123));
    // One that waits for long is answered before, and tells its outcome later.
    let holder = place.hold("door");
    eventually("it is known", || (!session.get(&action).body.contains("<select id=\"kind\"")).then_some(()));
    let waits = session.post(&action, &format!("{secret}&reason=later&wait=600"));
    let page = waits.header("location").map(str::to_owned).unwrap_or_else(|| panic!("{waits:?}"));
    assert!(session.get(&format!("/{page}")).body.contains("is in its queue"));
    holder.end();
    eventually("its outcome", || {
        session.get(&format!("/{page}")).body.contains("until `lockkeeper thaw`").then_some(())
    });
    assert_eq!(place.run(&["thaw", "door"]).code, Some(0));
}

#[test]
fn nothing_is_ordered_without_a_session_its_form_and_a_page_of_ours() {
    let place = Place::new();
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    let address = monitor.address().to_owned();
    let _holder = place.hold("door");
    let (session, other) = (Session::open(&monitor), Session::open(&monitor));
    let (action, secret) = session.form("door", "revoke");
    let (_, of_other) = other.form("door", "revoke");
    let (port, cookie) = (address.rsplit(':').next().unwrap(), session.cookie.as_str());
    let (host, origin) = (format!("Host: {address}"), format!("Origin: http://{address}"));
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let unknown = format!("Cookie: lockkeeper-{port}={}", "0".repeat(32));
    for (why, status, lines, body) in [
        ("no session", 401, vec![&*host, &*origin, kind], &*secret),
        ("a cookie of another monitor", 401, vec![&host, &origin, kind, &unknown], &secret),
        ("another origin", 403, vec![&host, "Origin: http://evil.example", kind, cookie], &secret),
        ("a foreign host", 421, vec!["Host: evil.example", "Origin: http://evil.example", kind, cookie], &secret),
        ("no secret", 422, vec![&host, &origin, kind, cookie], "reason=x"),
        ("the secret of another session", 403, vec![&host, &origin, kind, cookie], &of_other),
        ("a form of another type", 415, vec![&host, &origin, "Content-Type: text/plain", cookie], &secret),
    ] {
        let lines: Vec<_> = lines.into_iter().map(str::to_owned).collect();
        let answer = ask_at(&address, &format!("POST {action}"), &lines, body);
        assert_eq!(answer.status, status, "{why}: {answer:?}");
    }
    // A cookie is no token of a program.
    let lines = [host, origin, cookie.to_owned()];
    assert_eq!(ask_at(&address, "POST /api/locks/door", &lines, "{}").status, 401);
    // Who is logged out, or of a monitor that was restarted, is not logged in.
    let out = other.post("/logout", &of_other);
    assert!(out.status == 303 && out.header("set-cookie").unwrap().contains("Max-Age=0"), "{out:?}");
    assert_eq!(other.post(&action, &of_other).status, 401);
    assert_eq!(other.get(&action).header("location"), Some(&*format!("login{}", &action["/order".len()..])));
    let (_, said) = monitor.stop();
    assert!(said.contains("refused: ") && said.contains("revoke door, contender "), "{said}");
    let monitor = operated(&place, &address, &[]);
    eventually("it knows the lock", || monitor.get("/lock?name=door").1.contains(">holds<").then_some(()));
    assert_eq!(session.post(&action, &secret).status, 401);
    assert_eq!(place.show("door")["contenders"][0]["revocation"], Value::Null, "nothing was ordered");
}

#[test]
fn the_way_out_of_a_deadlock_leads_to_the_order_that_ends_it() {
    let place = Place::new();
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    let session = Session::open(&monitor);
    let _crossing = Crossing::door_and_gate(place);
    let link = eventually("the way out", || {
        let page = session.get("/").body;
        let (before, _) = page.split_once("\">Ask the holder here</a>")?;
        before.rsplit_once("<a href=\"").map(|(_, link)| plain(link))
    });
    let page = session.get(&format!("/{link}")).body;
    let secret = attributes(&page, "value").next().unwrap();
    let answer = session.post(&format!("/{link}"), &format!("secret={secret}&reason="));
    assert_eq!(answer.status, 303, "{answer:?}");
    monitor.until("the end", "/api/deadlocks", |found| found["deadlocks"] == json!([]));
}

#[test]
fn who_is_logged_out_sees_the_way_in_and_a_monitor_without_orders_shows_none() {
    let place = Place::new();
    let _holder = place.hold("door");
    let (with, without) = (operated(&place, "127.0.0.1:0", &[]), Monitor::start(&place, &[]));
    for monitor in [&with, &without] {
        eventually("the lock", || monitor.get("/lock?name=door").1.contains(">holds<").then_some(()));
    }
    let page = with.get("/lock?name=door").1;
    assert!(
        page.contains("href=\"login\"") && page.contains("order=revoke") && page.contains("order=freeze"),
        "{page}"
    );
    let session = Session::open(&with);
    let page = session.get("/lock?name=door").body;
    assert!(page.contains("action=\"logout\"") && !page.contains("href=\"login\""), "{page}");
    for path in ["/lock?name=door", "/lock?name=free", "/"] {
        let page = without.get(path).1;
        assert!(!page.contains("login") && !page.contains("logout") && !page.contains("order="), "{page}");
    }
    for path in ["/login", "/order?name=door&order=freeze"] {
        assert_eq!(without.get(path).0, 404, "{path}");
    }
    assert_eq!(ask_at(without.address(), "POST /api/locks/door", &ours(without.address()), "{}").status, 405);
}
