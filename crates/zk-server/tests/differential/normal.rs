//! Makes equal what differs by nature: times are removed, transaction numbers count from the beginning of the run,
//! sessions have the number of the client, and what has no order is sorted.

use lockkeeper_zk_proto::message::{MultiResult, Stat, ZkResponse};

/// What a run counts from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) zxid: i64,
    /// Every session so far, in order of its beginning.
    pub(crate) sessions: Vec<i64>,
}

/// The number for transactions before this run.
const ZXID_BEFORE: i64 = -1;

impl Origin {
    pub(crate) fn zxid(&self, zxid: i64) -> i64 {
        match zxid {
            // Headers of events, of authentications, and the service's own nodes.
            -1 | 0 => zxid,
            // The root can have been changed by an earlier run.
            zxid if zxid < self.zxid => ZXID_BEFORE,
            zxid => zxid - self.zxid,
        }
    }

    pub(crate) fn response(&self, response: ZkResponse) -> ZkResponse {
        match response {
            ZkResponse::Create2 { path, stat } => ZkResponse::Create2 { path, stat: self.stat(stat) },
            ZkResponse::Stat(stat) => ZkResponse::Stat(self.stat(stat)),
            ZkResponse::GetData { data, stat } => ZkResponse::GetData { data, stat: self.stat(stat) },
            ZkResponse::GetChildren { children } => ZkResponse::GetChildren { children: sorted(children) },
            ZkResponse::GetChildren2 { children, stat } => {
                ZkResponse::GetChildren2 { children: sorted(children), stat: self.stat(stat) }
            }
            ZkResponse::GetAcl { acl, stat } => ZkResponse::GetAcl { acl, stat: self.stat(stat) },
            ZkResponse::Multi(results) => {
                ZkResponse::Multi(results.into_iter().map(|result| self.multi_result(result)).collect())
            }
            ZkResponse::GetEphemerals { ephemerals } => ZkResponse::GetEphemerals { ephemerals: sorted(ephemerals) },
            ZkResponse::WhoAmI(mut infos) => {
                infos.sort_by(|a, b| (&a.scheme, &a.user).cmp(&(&b.scheme, &b.user)));
                ZkResponse::WhoAmI(infos)
            }
            other => other,
        }
    }

    fn multi_result(&self, result: MultiResult) -> MultiResult {
        match result {
            MultiResult::Create2 { path, stat } => MultiResult::Create2 { path, stat: self.stat(stat) },
            MultiResult::SetData { stat } => MultiResult::SetData { stat: self.stat(stat) },
            MultiResult::GetData { data, stat } => MultiResult::GetData { data, stat: self.stat(stat) },
            MultiResult::GetChildren { children } => MultiResult::GetChildren { children: sorted(children) },
            other => other,
        }
    }

    fn stat(&self, stat: Stat) -> Stat {
        let session = self.sessions.iter().position(|session| *session == stat.ephemeral_owner);
        // The root's counts go on from run to run; both servers have seen the same runs.
        Stat {
            czxid: self.zxid(stat.czxid),
            mzxid: self.zxid(stat.mzxid),
            pzxid: self.zxid(stat.pzxid),
            ctime: 0,
            mtime: i64::from(stat.mtime != stat.ctime && stat.version == 0),
            ephemeral_owner: match (stat.ephemeral_owner, session) {
                (0, _) => 0,
                (_, Some(session)) => session as i64 + 1,
                (_, None) => -1,
            },
            ..stat
        }
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
