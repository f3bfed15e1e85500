//! The page that asks for the token, logging in by it, and logging out.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::confirm::Target;
use super::desk::{DeskState, OperatorDesk};
use super::origin::{Peer, RequestOrigin};
use super::request::Refused;
use super::request::form;
use crate::monitor::page::Escaped;

#[derive(Deserialize)]
struct LoginForm {
    token: String,
}

#[derive(Deserialize)]
struct OfSession {
    secret: String,
}

/// Shows the form, unless the token would be sent where others can read it.
pub(super) async fn page(
    State(desk): DeskState,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    target: Result<Query<Target>, QueryRejection>,
) -> Response {
    let caller = RequestOrigin::new(peer, &headers);
    match Target::of(target).and_then(|target| desk.operating.require_way(&caller).map(|()| target)) {
        Ok(target) => desk.page(StatusCode::OK, "Log in", &caller, &asking(&target, None)),
        Err(refused) => desk.refuse(&caller, "a login", &refused, None),
    }
}

/// Takes the token, and leads back to where it was asked for.
pub(super) async fn log_in(
    State(desk): DeskState,
    Extension(peer): Extension<Peer>,
    target: Result<Query<Target>, QueryRejection>,
    request: Request,
) -> Response {
    let caller = RequestOrigin::new(peer, request.headers());
    let logged_in = logged_in(&desk, &caller, target, request).await;
    logged_in.unwrap_or_else(|refused| desk.refuse(&caller, "a login", &refused, None))
}

async fn logged_in(
    desk: &OperatorDesk,
    caller: &RequestOrigin,
    target: Result<Query<Target>, QueryRejection>,
    request: Request,
) -> Result<Response, Refused> {
    let target = Target::of(target)?;
    desk.operating.require(caller, true)?;
    let given: LoginForm = form(request).await?;
    if let Err(refused) = desk.operating.check_token(given.token.trim(), StatusCode::FORBIDDEN) {
        return Ok(desk.refuse(caller, "a login", &refused, Some(&asking(&target, Some(&refused)))));
    }
    let cookie = desk.operating.log_in(caller);
    let cookie = cookie.map_err(|failure| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, failure.message))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, target.place()), (SET_COOKIE, cookie)]).into_response())
}

pub(super) async fn log_out(State(desk): DeskState, Extension(peer): Extension<Peer>, request: Request) -> Response {
    let caller = RequestOrigin::new(peer, request.headers());
    let logged_out = logged_out(&desk, &caller, request).await;
    logged_out.unwrap_or_else(|refused| desk.refuse(&caller, "a logout", &refused, None))
}

async fn logged_out(desk: &OperatorDesk, caller: &RequestOrigin, request: Request) -> Result<Response, Refused> {
    desk.operating.require(caller, true)?;
    let OfSession { secret } = form(request).await?;
    let session = desk.operating.require_form(caller, &secret)?;
    let headers = [(LOCATION, "./".to_owned()), (SET_COOKIE, desk.operating.log_out(caller, &session))];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

fn asking(target: &Target, refused: Option<&Refused>) -> String {
    let why = refused.map(|refused| format!("<p class=\"told bad\" role=\"alert\">{}</p>", Escaped(&refused.text)));
    format!(
        "<h1>Log in to operate</h1>{}<form class=\"card order\" method=\"post\" action=\"login{}\">\
         <p><label for=\"token\">The token that the monitor was started with</label>\
         <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"current-password\" required></p>\
         <p><button>Log in</button></p></form>\
         <p class=\"key\">A login lasts eight hours, and ends with the monitor.</p>",
        why.unwrap_or_default(),
        Escaped(&target.query())
    )
}
