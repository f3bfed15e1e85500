//! Transactions of several operations: all take effect under one number, or none does.

use lockkeeper_zk_proto::message::{CreateMode, ErrorCode, MultiOperation, MultiResult};

use crate::machine::dispatch::Requester;
use crate::machine::io::ClockReading;
use crate::machine::server::{AppliedChange, ServerMachine};
use crate::machine::writes::CreateKind;
use crate::tree::{TreeChange, Undo};

/// The answer to an operation when all of them took effect.
#[derive(Clone, Copy, Debug)]
enum StepAnswer {
    Create,
    Create2,
    Delete,
    SetData,
}

impl ServerMachine {
    /// Does all operations or none; each sees what those before it did.
    pub(super) fn multi(
        &mut self,
        moment: ClockReading,
        caller: &Requester,
        operations: Vec<MultiOperation>,
    ) -> Result<Vec<MultiResult>, ErrorCode> {
        let zxid = self.take_zxid();
        let count = operations.len();
        let (mut done, mut undos, mut results) = (Vec::new(), Vec::new(), Vec::with_capacity(count));
        for operation in operations {
            match self.step(moment, caller, operation, zxid, &mut done, &mut undos) {
                Ok(result) => results.push(result),
                Err(error) => {
                    undos.into_iter().rev().for_each(|undo| self.state.tree.undo(undo));
                    return match error {
                        ErrorCode::MarshallingError => Err(error),
                        _ => Ok(failed(count, results.len(), error)),
                    };
                }
            }
        }
        // A transaction that only checks changes nothing, so there is nothing to store.
        if !done.is_empty() {
            self.publish(moment, zxid, done);
        }
        Ok(results)
    }

    /// Does one operation, noting the change and how to take it back.
    fn step(
        &mut self,
        moment: ClockReading,
        caller: &Requester,
        operation: MultiOperation,
        zxid: i64,
        done: &mut Vec<AppliedChange>,
        undos: &mut Vec<Undo>,
    ) -> Result<MultiResult, ErrorCode> {
        let Some((change, answer)) = self.allow_step(caller, operation)? else {
            return Ok(MultiResult::Check);
        };
        let path = match &change {
            TreeChange::Create { path, .. } | TreeChange::SetData { path, .. } => path.clone(),
            _ => Box::default(),
        };
        let (one, undo) = self.apply(moment, zxid, change).map_err(|_| ErrorCode::DataInconsistency)?;
        done.push(one);
        undos.push(undo);
        Ok(match answer {
            StepAnswer::Create => MultiResult::Create { path: path.into() },
            StepAnswer::Create2 => MultiResult::Create2 { stat: self.stat_of(&path), path: path.into() },
            StepAnswer::Delete => MultiResult::Delete,
            StepAnswer::SetData => MultiResult::SetData { stat: self.stat_of(&path) },
        })
    }

    /// The change an operation asks for and how it is answered; `None` for a check that holds.
    fn allow_step(
        &mut self,
        caller: &Requester,
        operation: MultiOperation,
    ) -> Result<Option<(TreeChange, StepAnswer)>, ErrorCode> {
        Ok(Some(match operation {
            MultiOperation::CreateTtl { create, ttl_ms } if create.mode.has_ttl() => {
                (self.allow_create(caller, create, CreateKind::Ttl(ttl_ms))?, StepAnswer::Create2)
            }
            // Within a transaction the mode decides in 3.8, not which of the requests it was, and the answer to a plain
            // creation never has a Stat.
            MultiOperation::Create(create)
            | MultiOperation::Create2(create)
            | MultiOperation::CreateContainer(create)
            | MultiOperation::CreateTtl { create, .. } => {
                if create.mode.has_ttl() {
                    // Apache fails here in a way that fails the request and not the transaction.
                    return Err(ErrorCode::MarshallingError);
                }
                let is_container = create.mode == CreateMode::Container;
                let (kind, answer) = if is_container {
                    (CreateKind::Container, StepAnswer::Create2)
                } else {
                    (CreateKind::Plain, StepAnswer::Create)
                };
                (self.allow_create(caller, create, kind)?, answer)
            }
            MultiOperation::Delete { path, version } => (self.allow_delete(caller, path, version)?, StepAnswer::Delete),
            MultiOperation::SetData { path, data, version } => {
                (self.allow_set_data(caller, path, data, version)?, StepAnswer::SetData)
            }
            MultiOperation::Check { path, version } => {
                self.allow_check(caller, &path, version)?;
                return Ok(None);
            }
        }))
    }
}

/// The results of a transaction that failed at the operation `at`: that one has the error, those before it say OK
/// without having taken effect, those after it were not tried.
fn failed(count: usize, at: usize, error: ErrorCode) -> Vec<MultiResult> {
    let code = |index: usize| match index.cmp(&at) {
        std::cmp::Ordering::Less => ErrorCode::Ok,
        std::cmp::Ordering::Equal => error,
        std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency,
    };
    (0..count).map(|index| MultiResult::Error(code(index))).collect()
}
