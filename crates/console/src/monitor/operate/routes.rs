//! Routes of operators' paths.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::desk::OperatorDesk;
use super::operating::Operating;
use super::{confirm, login, program};
use crate::monitor::view::View;

/// The paths of operators, all of the depth of the page's but the one for programs.
pub(crate) fn routes(view: Arc<View>, operating: Arc<Operating>) -> Router {
    Router::new()
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/order", get(confirm::page).post(confirm::order))
        .route("/api/locks/{*name}", post(program::order))
        .with_state(Arc::new(OperatorDesk { view, operating }))
}
