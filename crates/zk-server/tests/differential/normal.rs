//! Makes equal what differs by nature: times are removed, transaction numbers count from the beginning of the run,
//! sessions have the number of the client, and what has no order is sorted.

use lockkeeper_zk_proto::message::{MultiResult, Response, Stat};

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

    pub(crate) fn response(&self, response: Response) -> Response {
        match response {
            Response::Create2 { path, stat } => Response::Create2 { path, stat: self.stat(stat) },
            Response::Stat(stat) => Response::Stat(self.stat(stat)),
            Response::GetData { data, stat } => Response::GetData { data, stat: self.stat(stat) },
            Response::GetChildren { children } => Response::GetChildren { children: sorted(children) },
            Response::GetChildren2 { children, stat } => {
                Response::GetChildren2 { children: sorted(children), stat: self.stat(stat) }
            }
            Response::GetAcl { acl, stat } => Response::GetAcl { acl, stat: self.stat(stat) },
            Response::Multi(results) => {
                Response::Multi(results.into_iter().map(|result| self.multi_result(result)).collect())
            }
            Response::GetEphemerals { ephemerals } => Response::GetEphemerals { ephemerals: sorted(ephemerals) },
            Response::WhoAmI(mut infos) => {
                infos.sort_by(|a, b| (&a.scheme, &a.user).cmp(&(&b.scheme, &b.user)));
                Response::WhoAmI(infos)
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
