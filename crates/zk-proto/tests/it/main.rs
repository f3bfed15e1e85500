//! Tests of the public interface, in one binary so that they link once.

mod anchor;
mod ensemble;
mod golden;
mod malformed;
mod round_trip;
mod samples;
mod session;
mod watches;
