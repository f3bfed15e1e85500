//! A cluster behind a balancer: one address, behind which each connection goes to another member.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Liveness, SafeUntil};
use lockkeeper_faults::etcd::{self, Cluster, Release};
use lockkeeper_faults::wait;
use lockkeeper_recipes::MutexGuard;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::keeper;

/// Passes connections on, to one member after the other.
struct Balancer {
    address: SocketAddr,
    given: Arc<[AtomicUsize]>,
}

impl Balancer {
    async fn start(members: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let given: Arc<[AtomicUsize]> = members.iter().map(|_| AtomicUsize::new(0)).collect();
        let counts = given.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let (mut client, _) = listener.accept().await.expect("a connection");
                let member = number % members.len();
                counts[member].fetch_add(1, Ordering::Relaxed);
                let target = members[member];
                tokio::spawn(async move {
                    // A member that is down refuses, and so does the balancer then.
                    if let Ok(mut server) = TcpStream::connect(target).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { address, given }
    }

    fn given(&self) -> Vec<usize> {
        self.given.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

fn safe_until(guard: &MutexGuard) -> BootInstant {
    match guard.hold().liveness() {
        Liveness::Held { safe_until: SafeUntil::At(at) } | Liveness::Jeopardy { safe_until: SafeUntil::At(at) } => at,
        other => panic!("the hold is {other:?}"),
    }
}

#[tokio::test]
async fn behind_a_balancer_holds_go_on_over_other_members_and_the_next_waits_for_its_turn() {
    if !etcd::availability().or_skip_here() {
        return;
    }
    let mut cluster = Cluster::start(Release::Debian, 3).await.expect("a cluster");
    let balancer = Balancer::start(cluster.addresses()).await;
    let [ann, bob] = [(); 2].map(|()| keeper(balancer.address, "?session_timeout=20s"));
    let mut last = 0;
    for struck in 0..3 {
        let guard = soon("the grant", ann.mutex("door").expect("a name").lock()).await.expect("it is granted");
        assert!(guard.fencing_token().as_u64() > last);
        last = guard.fencing_token().as_u64();
        let door = bob.mutex("door").expect("a name");
        let next = tokio::spawn(async move { door.lock().await });
        let both_stand = async || (ann.contenders("door").await.ok()?.len() == 2).then_some(());
        wait::until("bob stands in the queue", SOON, both_stand).await.expect("he joins");
        // Each member in turn: one is in use, and one leads.
        cluster.server_mut(struck).kill();
        let before = safe_until(&guard);
        let is_proven_again = async || (safe_until(&guard) > before).then_some(());
        wait::until("the hold is proven again", SOON, is_proven_again).await.expect("by another member");
        assert!(guard.hold().is_held() && !next.is_finished());
        cluster.server_mut(struck).start().expect("it starts");
        cluster.serving().await.expect("it serves");
        soon("the release", guard.release()).await.expect("it was held");
        let granted = soon("the next grant", next).await.expect("no panic").expect("it is granted");
        assert!(granted.fencing_token().as_u64() > last);
        last = granted.fencing_token().as_u64();
        soon("the release", granted.release()).await.expect("it was held");
    }
    assert!(balancer.given().iter().all(|given| *given > 0), "one member served alone: {:?}", balancer.given());
    for keeper in [ann, bob] {
        soon("closing", keeper.close()).await.expect("the cluster serves");
    }
}
