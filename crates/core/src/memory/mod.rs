//! The memory backend: the reference semantics of the waist, and a test double.
//!
//! Contenders of one process exclude one another; nothing leaves the process and nothing needs a runtime. It implements
//! the waist in the simplest form. [`Testing`] lets a test inject what happens to real services: expire a session, cut
//! it off, pause the service, lose a reply, remove a contender.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockkeeper::Error> {
//! use lockkeeper::{Keeper, LossReason};
//!
//! let keeper = Keeper::memory();
//! let guard = keeper.mutex("nightly")?.lock().await?;
//! keeper.testing().unwrap().expire_session();
//! assert_eq!(guard.hold().lost().await, LossReason::Expired);
//! # Ok(())
//! # }
//! ```

mod queue;
mod service;
mod session;
mod standing;
mod testing;
mod value;

pub use service::MemoryService;
pub use testing::Testing;
