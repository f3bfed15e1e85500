//! The cases, one file for each kind of behaviour; a case panics if the backend is wrong.
//!
//! - `capabilities`: a service does what its capabilities say;
//! - `examination`: examinations harm nothing, and tell the same;
//! - `remnants`: what users have left is removed beside those who use the service;
//! - `kinds`: the kinds of lock, while nothing fails;
//! - `faults`: faults and losses;
//! - `waist`: the waist's own calls and views.

mod capabilities;
mod examination;
mod faults;
mod kinds;
mod remnants;
mod waist;

use crate::case::Case;

/// Returns all cases, in the order in which they run: what is most basic first.
pub fn cases() -> Vec<Case> {
    [capabilities::cases(), examination::cases(), remnants::cases(), kinds::cases(), faults::cases(), waist::cases()]
        .concat()
}
