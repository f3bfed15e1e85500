//! One round of each kind of write, and whether it did harm.
//!
//! A contender leaves, and the same session joins again and has the same key. Another session stands behind it. What
//! was sent for the first is taken in by the server only then.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Enqueued, Expected, Request, Revocation, Session};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::wait;
use lockkeeper_trials::late::{self, LOOKED_FOR, join};
use lockkeeper_trials::waist::{door, entry, session, ticket};

use crate::client::backend;
use crate::way::Client;

/// As many connections as a round needs.
const CONNECTIONS: usize = 3;

/// A kind of write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write {
    /// The release of a place.
    Deletion,
    /// That of a place of which no answer came.
    Withdrawal,
    Break,
    Yield,
    Value,
}

/// The server, and who stands behind in the queue.
pub(crate) struct Stage {
    /// The servers of its clients.
    servers: Vec<SocketAddr>,
    settings: String,
    ignores_conditions: bool,
    next: Arc<dyn Session>,
}

impl Stage {
    pub(crate) async fn new(server: &Server, layout: &str) -> Self {
        let settings = format!("session_timeout=60s{layout}");
        Self::of(&[server.address(); CONNECTIONS], server.address(), &settings).await
    }

    /// A stage on several servers; who stands behind is a client of one of them.
    pub(crate) async fn of(servers: &[SocketAddr], next: SocketAddr, settings: &str) -> Self {
        let next = session(&backend(next, &format!("?{settings}"))).await;
        Self { servers: servers.to_owned(), settings: settings.to_owned(), ignores_conditions: false, next }
    }

    /// Its clients' writes meet whatever stands there.
    pub(crate) fn without_conditions(self) -> Self {
        Self { ignores_conditions: true, ..self }
    }

    /// Plays a round; says what harm the late write did.
    pub(crate) async fn play(&self, write: Write) -> Option<String> {
        match write {
            Write::Deletion => self.deletion().await,
            Write::Withdrawal => self.withdrawal().await,
            Write::Break | Write::Yield => self.request(write).await,
            Write::Value => self.value().await,
        }
    }

    async fn client(&self) -> Client {
        Client::open(&self.servers, &self.settings, self.ignores_conditions).await
    }

    async fn deletion(&self) -> Option<String> {
        let client = self.client().await;
        let (ours, left) = (&client.session, ticket());
        let first = join(&**ours, left).await;
        client.hold(0);
        let leaving = tokio::spawn(ours.withdraw(&door(), left));
        client.end(0).await;
        soon("the release", leaving).await.expect("no panic").expect("it was held");
        self.harm(&client.session, key(&first), || client.pass(0)).await
    }

    /// The join's bytes are lost, and those of its first withdrawal come late.
    async fn withdrawal(&self) -> Option<String> {
        let client = self.client().await;
        let (ours, first) = (&client.session, ticket());
        let placed = join(&**ours, first).await;
        soon("the release", ours.withdraw(&door(), first)).await.expect("it was held");
        client.hold(0);
        let withdrawn = ticket();
        let joining = tokio::spawn(ours.enqueue_one(&door(), entry(withdrawn)));
        client.sent().await;
        let leaving = tokio::spawn(ours.withdraw(&door(), withdrawn));
        tokio::join!(client.end(0), client.hold_once_begun(1));
        let joined = soon("the refusal", joining).await.expect("no panic");
        assert!(joined.is_err(), "it was withdrawn");
        client.end(1).await;
        soon("the withdrawal", leaving).await.expect("no panic").expect("it was withdrawn");
        self.harm(ours, key(&placed), || client.pass(1)).await
    }

    /// Another session asks the first contender, and its request meets the second or nothing.
    async fn request(&self, write: Write) -> Option<String> {
        let (client, asking) = (self.client().await, self.client().await);
        let (ours, left) = (&client.session, ticket());
        let first = join(&**ours, left).await;
        let ask = |request| tokio::spawn(asking.session.request(&door(), &first.id, request));
        let asked = if let Write::Break = write {
            asking.hold(0);
            ask(Request::Break { token: first.token })
        } else {
            // The record is read before it is written.
            asking.hold_after_one(0, || ask(Request::Yield(Revocation::new(None, None)))).await
        };
        asking.end(0).await;
        let _ = soon("an answer", asked).await.expect("no panic");
        soon("the release", ours.withdraw(&door(), left)).await.expect("it was held");
        let harm = self.harm(ours, key(&first), || asking.pass(0)).await;
        soon("the end", asking.session.close()).await.expect("the end");
        harm
    }

    async fn value(&self) -> Option<String> {
        let client = self.client().await;
        let write = |value: &'static [u8]| client.session.set_value(&door(), Expected::Any, Some(value.into()));
        client.hold(0);
        let early = tokio::spawn(write(b"early"));
        client.end(0).await;
        let early = soon("an answer", early).await.expect("no panic");
        assert!(early.is_err(), "it is not answered: {early:?}");
        // The former connection may be in use for a moment.
        let late = async || write(b"late").await.ok();
        wait::until("the later value", wait::PATIENCE, late).await.expect("it is written").expect("whatever was there");
        client.pass(0);
        let looking = async {
            loop {
                let value = soon("the value", self.next.value(&door())).await.expect("a look").expect("it was written");
                if &*value.bytes != b"late" {
                    return "the earlier value came back".to_owned();
                }
            }
        };
        let harm = tokio::time::timeout(LOOKED_FOR, looking).await.ok();
        soon("the end", client.session.close()).await.expect("the end");
        harm
    }

    /// Says what harm a late write does that was meant for a contender with this key: the next one has it too.
    pub(crate) async fn harm(
        &self,
        ours: &Arc<dyn Session>,
        key_of_first: &str,
        pass: impl FnOnce(),
    ) -> Option<String> {
        let let_pass = |place: &Enqueued| {
            assert_eq!(key(place), key_of_first, "a slot is taken again");
            pass();
        };
        late::harm(&**ours, &*self.next, None, let_pass).await
    }
}

/// The end of a contender's key: what stands in its identity before the revision at which it was created.
pub(crate) fn key(place: &Enqueued) -> &str {
    let (key, _) = place.id.as_str().rsplit_once(':').expect("an identity");
    key
}
