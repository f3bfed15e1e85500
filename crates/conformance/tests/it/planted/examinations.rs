//! Examinations that do harm, or tell what is not so.

use std::sync::{Arc, Mutex};

use lockkeeper_core::{
    Backend, BoxFuture, Entry, Finding, Mode, Owner, QueueName, Result, Scrutiny, Session, Severity, Ticket,
};

use super::Bug;

/// The sessions of a client that may still live.
pub(super) type Open = Arc<Mutex<Vec<Arc<dyn Session>>>>;

pub(super) fn examine(
    bug: Bug,
    inner: &Arc<dyn Backend>,
    open: &Open,
    scrutiny: Scrutiny,
) -> BoxFuture<Result<Vec<Finding>>> {
    let examining = inner.admin().examine(scrutiny);
    match bug {
        Bug::ExaminationsJoin if scrutiny == Scrutiny::Full => {
            let opening = inner.session();
            Box::pin(async move {
                join(opening.await?).await?;
                examining.await
            })
        }
        Bug::ExaminationsEndSessions => {
            let open = std::mem::take(&mut *open.lock().expect("no task panics here"));
            Box::pin(async move {
                for session in open {
                    session.close().await?;
                }
                examining.await
            })
        }
        Bug::WarnsForNothing if scrutiny == Scrutiny::Brief => {
            Box::pin(std::future::ready(Ok(vec![Finding::new(Severity::Warning, "all is well", "leave it as it is")])))
        }
        _ => examining,
    }
}

/// Takes a place, and keeps it for as long as the service lives.
async fn join(session: Arc<dyn Session>) -> Result<()> {
    let queue = QueueName::new("examined")?;
    let entry = Entry::new(Ticket::from_bits(0xe4a), Mode::Mutex, Arc::new(Owner::this_process()));
    session.enqueue_one(&queue, entry).await?;
    std::mem::forget(session);
    Ok(())
}
