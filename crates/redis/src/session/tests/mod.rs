//! A model of the service, for one lock and two sessions, against which the rule of belief is tested.

mod client;
mod schedules;
mod service;
mod world;
