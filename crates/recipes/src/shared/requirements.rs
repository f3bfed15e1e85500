//! The promises that a program requires of its service: a session is opened only where they are made. How promises
//! compare is in `lockkeeper-core`.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, Error, ErrorKind, Finding, Openable, Operation, Requirement, Result, Scrutiny,
    Session,
};

use crate::shared::Shared;
use crate::shared::examination::EXAMINED_WITHIN;

impl Shared {
    /// Opens a session, if the service makes the promises that are required of it: as it states them, which needs no
    /// request, and then as it is found to be beside the session. Each session asks anew, since the service may be
    /// another one by then.
    pub(super) fn open(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        if self.required.is_empty() {
            return self.backend.session();
        }
        let (backend, required, clock) = (self.backend.clone(), self.required.clone(), self.clock.clone());
        Box::pin(async move {
            compare(&*backend, &required, backend.capabilities(), &[])?;
            let session = backend.session().await?;
            let verified = verify(&*backend, &required, &*clock).await;
            match verified {
                Ok(()) => Ok(session),
                Err(error) => {
                    session.discard();
                    Err(error)
                }
            }
        })
    }
}

/// Examines the service, and compares what is left of its promises.
async fn verify(backend: &dyn Backend, required: &[Requirement], clock: &dyn Clock) -> Result<()> {
    let found = tokio::select! {
        biased;
        found = backend.admin().examine(Scrutiny::Brief) => found?,
        () = clock.sleep_until(clock.now().saturating_add(EXAMINED_WITHIN)) => return Err(unexamined(backend)),
    };
    compare(backend, required, &backend.capabilities().weakened_by(&found), &found)
}

/// Why it is not known what the service promises.
fn unexamined(backend: &dyn Backend) -> Error {
    let message = format!("what `{}` promises could not be examined within {EXAMINED_WITHIN:?}", backend.service());
    Error::transient(ErrorKind::ConnectionLost, Operation::Connect, message)
}

/// Refuses promises that are less than required, and says what they were weakened by.
fn compare(backend: &dyn Backend, required: &[Requirement], promised: &Capabilities, found: &[Finding]) -> Result<()> {
    let Some(unmet) = required.iter().find(|required| !required.is_met_by(promised)) else {
        return Ok(());
    };
    let cure = match found.iter().find(|finding| finding.leaves.is_some()) {
        Some(finding) => format!("{}: {}", finding.what, finding.cure),
        None => "name another service, or require less".to_owned(),
    };
    let message = format!(
        "`{}` promises less than is required: \"{}\" and not \"{unmet}\"; {cure}",
        backend.service(),
        unmet.promised_by(promised)
    );
    Err(Error::permanent(ErrorKind::Unsupported, Operation::Connect, message))
}
