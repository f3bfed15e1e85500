//! The waiters that a departure wakes among many, each with its own connection.

use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_conformance::soon;
use lockkeeper_core::Departure;
use lockkeeper_faults::figures;
use lockkeeper_faults::redis::Server;
use lockkeeper_trials::waist::{door, entry, ticket};
use tokio::sync::mpsc;

use crate::stage::{SETTINGS, session, work};

const WAITERS: usize = 200;

/// How long those that are told too often may take to show themselves.
const LOOKED_FOR: Duration = Duration::from_secs(1);

/// How many records may be read: one by the one that leaves, three by the one behind: of the one ahead, of its session,
/// and its own.
const READS_MAX: u64 = 4;

pub(crate) fn one_of_many() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        let mut sessions = Vec::with_capacity(WAITERS + 1);
        let mut tickets = Vec::with_capacity(WAITERS + 1);
        let (told, mut tellings) = mpsc::unbounded_channel();
        let mut last = None;
        for number in 0..=WAITERS {
            let session = session(server.address(), SETTINGS).await?;
            let ticket = ticket();
            tickets.push(ticket);
            let joined = session.enqueue_one(&door(), entry(ticket)).await?;
            if let Some(ahead) = last.replace(joined.id.clone()) {
                let waiting = session.departure(&door(), Some(&joined.id), &ahead, joined.view.connection);
                let told = told.clone();
                tokio::spawn(async move { told.send((number, waiting.await)) });
            }
            sessions.push(session);
        }
        let none = tokio::time::timeout(LOOKED_FOR, tellings.recv()).await;
        assert!(none.is_err(), "none has departed: {none:?}");
        let (before, _) = work(&server, "get").await?;
        sessions[0].withdraw(&door(), tickets[0]).await?;
        let (number, departure) = soon("the word of the departure", tellings.recv()).await.ok_or("all wait")?;
        assert_eq!((number, departure?), (1, Departure::Gone));
        let more = tokio::time::timeout(LOOKED_FOR, tellings.recv()).await;
        assert!(more.is_err(), "a second one was told: {more:?}");
        let reads = work(&server, "get").await?.0 - before;
        figures::tell(&format!(
            "crowd: one departure among {WAITERS} waiters woke 1, which made {reads} reads with it"
        ));
        assert!(reads <= READS_MAX, "{reads} records were read after one departure");
        for session in sessions {
            session.close().await?;
        }
        Ok(())
    })
}
