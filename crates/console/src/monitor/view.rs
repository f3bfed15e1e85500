//! The data that all answers are made from.

use std::sync::Arc;

use lockkeeper::NamePattern;
use lockkeeper_monitor::Collector;

use super::alerting::Alerting;
use crate::output::OrderCommands;

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) collector: Arc<Collector>,
    pub(crate) alerting: Arc<Alerting>,
    /// The locks that have series with their names.
    pub(crate) lock_metrics: Vec<NamePattern>,
    pub(crate) orders: OrderCommands,
}
