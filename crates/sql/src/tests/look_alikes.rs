//! Servers that only speak as PostgreSQL or MySQL do: they are refused by their name, or tried where the URL says that
//! they are not verified. The doubles are real servers under another name, which lack one thing each.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Error, ErrorKind, Exclusion};
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Keeper, MutexGuard};

use super::places;
use super::server::{Need, Server, each_with, is_seen};
use crate::SqlBackend;

/// MariaDB under the name of another.
const NAMED: Need = Need::Settings([&[], &[("version", "10.11.6-MariaDB-TiDB-v7.5")]]);

/// PostgreSQL under the name of another.
const AURORA: &str = "CREATE FUNCTION aurora_version() RETURNS text LANGUAGE sql AS $$SELECT '15.4'$$";

/// A server of each kind that bears another's name.
async fn doubles() -> impl Iterator<Item = Server> {
    let mut doubles = Vec::new();
    for server in each_with(NAMED).await {
        server.ask(server.either(AURORA, "DO 0")).await.expect("its name");
        doubles.push(server);
    }
    doubles.into_iter()
}

async fn lock(backend: SqlBackend) -> Result<MutexGuard, Error> {
    let keeper = Keeper::builder(Arc::new(backend)).retry(RetryPolicy::none()).build();
    soon("an answer", keeper.mutex("door").expect("a name").lock()).await
}

impl Server {
    fn unverified(&self) -> SqlBackend {
        SqlBackend::open(&format!("{}&server=unverified", self.url()).parse().expect("a URL")).expect("a good URL")
    }

    /// Whether a lock is refused, and this is what the double is said to lack.
    async fn is_found_to_lack(&self, what: &str) -> bool {
        let Err(error) = lock(self.unverified()).await else { return false };
        let told = format!("{error:#}");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent), "{what}: {told}");
        assert!(told.contains("is used unverified, and lacks what locks need"), "{told}");
        told.contains(what)
    }
}

#[tokio::test]
async fn a_look_alike_is_refused_by_its_name_and_used_unverified_at_the_best_effort() {
    for server in doubles().await {
        let verified = SqlBackend::open(&server.url().parse().expect("a URL")).expect("a good URL");
        let told = format!("{:#}", lock(verified).await.expect_err("it is none that was tested"));
        assert!(told.contains(server.either("this is Aurora", "this is TiDB")), "{told}");
        assert!(told.contains("`server=unverified`"), "{told}");
        assert_eq!(lockkeeper_core::Backend::capabilities(&server.unverified()).exclusion, Exclusion::BestEffort);
        lock(server.unverified()).await.expect("it has what locks need").release().await.expect("it is given back");
        let left = server.value("SELECT count(*) FROM lockkeeper.contender").await.expect("a count");
        assert_eq!(left, "0", "the trial leaves nothing");
        let backend = Arc::new(server.unverified());
        let strict = Keeper::builder(backend).require(Exclusion::Timed).build();
        let refused =
            soon("an answer", strict.mutex("door").expect("a name").lock()).await.expect_err("it asks for more");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused:#}");
    }
}

#[tokio::test]
async fn a_look_alike_that_lacks_what_locks_need_is_refused_with_its_name() {
    for server in doubles().await {
        drop(lock(server.unverified()).await.expect("it has what locks need"));
        let missing = server.either(
            ("WHERE NOT EXISTS (SELECT FROM lockkeeper.contender c WHERE c.ticket = t.ticket)", "WHERE false"),
            ("WHERE c.ticket IS NULL;", "WHERE c.ticket IS NULL AND FALSE;"),
        );
        let beat = server.either(
            ("SET beat = p_beat WHERE", "SET beat = 1 WHERE"),
            ("SET s.beat = p_beat WHERE", "SET s.beat = 1 WHERE"),
        );
        let first = ("p_expected = 1 AND v_version IS NOT NULL OR", "");
        let epoch = server.either(
            ("o.id = p_session AND o.epoch = p_epoch", "o.id = p_session"),
            ("s.id = p_session AND s.epoch = p_epoch LOCK IN", "s.id = p_session LOCK IN"),
        );
        for (planted, what) in [
            (missing, "another does not see at once"),
            (beat, "beat of a session"),
            (first, "write a value at once"),
            (epoch, "former connection"),
        ] {
            server.plant(&[planted]).await;
            assert!(server.is_found_to_lack(what).await, "{what}");
        }
        let sequence = places::numbers_of_a_sequence(&server).await;
        server.plant(&sequence.iter().map(|(is, becomes)| (&**is, &**becomes)).collect::<Vec<_>>()).await;
        // Where the places of a trial stand right by chance, its value may have two first writers.
        assert!(is_seen(async || server.is_found_to_lack("rows are not locked until a commit").await).await);
    }
}
