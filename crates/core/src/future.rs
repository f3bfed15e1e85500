//! The future that the methods of the waist return.

use std::pin::Pin;

/// A boxed future without a lifetime.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;
