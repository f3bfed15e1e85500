//! The base of all operators' pages: the page around them, and why a request was refused.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use lockkeeper::{ContenderInfo, QueueName};

use super::links::door_of;
use super::operating::Operating;
use super::origin::RequestOrigin;
use super::request::Refused;
use crate::monitor::alerting::View;
use crate::monitor::page::{Escaped, Frame, QueryValue, answer, freshness};

/// The desk, as handlers of requests have it.
pub(super) type DeskState = State<Arc<OperatorDesk>>;

#[derive(Debug)]
pub(super) struct OperatorDesk {
    pub(super) view: Arc<View>,
    pub(super) operating: Arc<Operating>,
}

impl OperatorDesk {
    /// Finds what is known now of a contender that was seen.
    pub(super) fn seen(&self, lock: &QueueName, contender: Option<&str>) -> Option<ContenderInfo> {
        let id = contender?;
        self.view.collector.read(|state| {
            let known = state.model.locks().get(lock)?;
            known.contenders.iter().find(|one| one.info.id.as_str() == id).map(|one| (*one.info).clone())
        })
    }

    /// Tells whether nothing is in the queue of a lock, as far as is known.
    pub(super) fn is_idle(&self, lock: &QueueName) -> bool {
        self.view.collector.read(|state| state.model.locks().get(lock).is_none_or(|known| known.contenders.is_empty()))
    }

    /// Answers with a page, which does not change by itself.
    pub(super) fn page(&self, status: StatusCode, title: &str, caller: &RequestOrigin, main: &str) -> Response {
        let (now, service) = (self.view.collector.now(), self.view.collector.service());
        let freshness = self.view.collector.read(|state| freshness(state, now));
        let door = door_of(&self.operating, caller);
        answer(status, Frame { title, service: &service, freshness, live: None, now, door }.around(main))
    }

    /// Logs that a request was refused, and answers with why, on this page if there is one.
    pub(super) fn refuse(&self, caller: &RequestOrigin, what: &str, refused: &Refused, page: Option<&str>) -> Response {
        self.operating.log_refusal(&format!("{what}, from {}", caller.name()), refused);
        let why = || {
            format!(
                "<h1>Nothing was done</h1><p class=\"told bad\" role=\"alert\">{}</p><p><a href=\"login\">Log in</a> · \
                 <a href=\"./\">All locks</a></p>",
                Escaped(&refused.text)
            )
        };
        self.refusal(caller, refused, page.map_or_else(why, str::to_owned))
    }

    /// Answers with why an order was not done, which is logged already.
    pub(super) fn tell_undone(&self, caller: &RequestOrigin, lock: &QueueName, refused: &Refused) -> Response {
        let name = lock.as_str();
        let main = format!(
            "<h1>{}</h1><p class=\"told bad\" role=\"alert\">{}</p><p><a href=\"lock?name={}\">See {}</a></p>",
            refused.title(),
            Escaped(&refused.text),
            QueryValue(name),
            Escaped(name)
        );
        self.refusal(caller, refused, main)
    }

    fn refusal(&self, caller: &RequestOrigin, refused: &Refused, main: String) -> Response {
        let mut response = self.page(refused.status, refused.title(), caller, &main);
        refused.say_when(&mut response);
        response
    }
}
