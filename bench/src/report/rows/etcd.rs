//! etcd beside the calls of other clients' locks.

use super::super::row::Bound::RatioAtMost;
use super::super::row::Group::Etcd;
use super::super::row::Row;
use super::super::row::Unit::Seconds;
use super::{ALONE, ETCD, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Etcd, "mutex", ETCD, ALONE, "clientv3 mutex", Seconds, RatioAtMost(1.2)),
    row(Etcd, "etcdctl", ETCD, ALONE, "etcdctl lock", Seconds, RatioAtMost(0.65)),
];
