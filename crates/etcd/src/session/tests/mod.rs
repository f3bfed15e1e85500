//! A model of etcd, for one lease and its client, against which the rule of belief is tested.

mod client;
mod leaders;
mod races;
mod schedules;
mod world;
