//! The one task that owns the machine: it takes inputs from connections and handles, and lets the answers out.

use std::error::Error;
use std::future::pending;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::machine::{ClockReading, Input, ServerMachine};
use crate::measures::ServerMeasures;
use crate::server::clock::{RequestTimes, ServerClock};
use crate::server::control::{Inspection, ServerCommand};
use crate::server::delivery::{Delivery, Flushed};
use crate::server::link::{Accepted, Arrival};
use crate::session::ConnectionId;
use crate::storage::{Storage, StorageEvent};

/// How many arrivals wait for the core before connections are read no further.
pub(super) const ARRIVALS_MAX: usize = 1024;
/// How many arrivals are handled before their outputs leave and their records are stored together.
const BATCH_ARRIVALS_MAX: usize = 256;

/// How many bytes of answers end a batch early: they should be on their way instead of in memory.
const ANSWERED_BYTES: usize = 1 << 20;

/// The machine and everything around it.
#[derive(Debug)]
pub(super) struct Core {
    machine: ServerMachine,
    clock: ServerClock,
    delivery: Delivery,
    asked: RequestTimes,
    storage: Option<Storage>,
    inputs: Inputs,
    paused_at: Option<Instant>,
    /// Why it ended by itself; the handle reads it.
    end: Arc<OnceLock<String>>,
}

/// What reaches the core from handles and connections.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) controls: mpsc::UnboundedReceiver<ServerCommand>,
    pub(super) accepted: mpsc::UnboundedReceiver<Accepted>,
    pub(super) arrivals: mpsc::Receiver<Arrival>,
}

/// Why the core woke up.
enum CoreWake {
    ServerCommand(Option<ServerCommand>),
    Accepted(Accepted),
    Arrivals(Vec<Arrival>),
    Storage(StorageEvent),
    Time,
    /// There is room for a slice of a snapshot, and nothing else to do.
    Slice,
}

impl Core {
    pub(super) fn new(
        mut machine: ServerMachine,
        clock: ServerClock,
        storage: Option<Storage>,
        inputs: Inputs,
        measures: Arc<ServerMeasures>,
    ) -> Self {
        machine.set_measures(Arc::clone(&measures));
        let delivery = Delivery::new(machine.limits().held_bytes_max, measures);
        let (asked, end) = (RequestTimes::default(), Arc::default());
        Self { machine, clock, delivery, asked, storage, inputs, paused_at: None, end }
    }

    /// Where it says why it ended by itself.
    pub(super) fn end(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.end)
    }

    /// Runs until it is told to end, or all handles to tell it are gone.
    pub(super) async fn run(mut self) {
        loop {
            let wake = self.wake().await;
            // Another thread may just have accepted the connection that this is about.
            self.take_accepted();
            match wake {
                CoreWake::ServerCommand(None) => return,
                CoreWake::ServerCommand(Some(ServerCommand::Shutdown(done))) => {
                    self.finish().await;
                    let _ = done.send(());
                    return;
                }
                CoreWake::ServerCommand(Some(control)) => self.obey(control),
                CoreWake::Accepted(accepted) => self.accept(accepted),
                CoreWake::Arrivals(arrivals) => arrivals.into_iter().for_each(|arrival| self.arrive(arrival)),
                CoreWake::Storage(event) => {
                    if !self.hear_of_storage(event) {
                        return;
                    }
                }
                CoreWake::Time => {
                    self.take_arrived();
                    self.handle(Input::Tick);
                }
                // Taken with what is let out.
                CoreWake::Slice => (),
            }
            self.let_out();
        }
    }

    async fn wake(&mut self) -> CoreWake {
        let (is_paused, takes_in) = (self.paused_at.is_some(), self.takes_in());
        let next_wake = self.machine.next_wake();
        let next_wake = next_wake.filter(|_| !is_paused).map(|at| self.clock.instant_of(at));
        let mut batch = Vec::new();
        let (event, room) = self.storage.as_mut().map(Storage::waits).unzip();
        // In this order: the handle first, then what is due, then clients.
        tokio::select! {
            biased;
            control = self.inputs.controls.recv() => CoreWake::ServerCommand(control),
            // Also during a pause, as the system's backlog does: what cuts connections then cuts these too.
            Some(accepted) = self.inputs.accepted.recv() => CoreWake::Accepted(accepted),
            event = if_any(event) => CoreWake::Storage(event),
            () = sleep_until_some(next_wake) => CoreWake::Time,
            _ = self.inputs.arrivals.recv_many(&mut batch, BATCH_ARRIVALS_MAX), if takes_in => {
                CoreWake::Arrivals(batch)
            }
            () = after_others(if_any(room)), if !is_paused => CoreWake::Slice,
        }
    }

    fn take_accepted(&mut self) {
        while let Ok(accepted) = self.inputs.accepted.try_recv() {
            self.accept(accepted);
        }
    }

    /// Takes in what had come when a time was due: that the server was busy until then is no silence of its clients.
    fn take_arrived(&mut self) {
        for _ in 0..ARRIVALS_MAX {
            if !self.takes_in() {
                return;
            }
            let Ok(arrival) = self.inputs.arrivals.try_recv() else { return };
            self.arrive(arrival);
        }
    }

    fn takes_in(&self) -> bool {
        self.paused_at.is_none() && !self.delivery.is_blackholed && !self.delivery.is_full()
    }

    fn accept(&mut self, Accepted { id, peer, link }: Accepted) {
        self.delivery.add(id, link);
        self.handle(Input::Accepted { connection: id, peer });
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Bytes(connection, bytes, read_at) => {
                self.handle_asked(Input::Bytes { connection, bytes: &bytes }, Some(read_at));
                if self.machine.answered_bytes() > ANSWERED_BYTES {
                    self.let_out();
                }
            }
            Arrival::Read(connection) => self.hear_of_read(connection),
            Arrival::Closed(connection) => {
                self.handle(Input::Closed { connection });
                // What was asked for before may still be on its way out: the link goes after it.
                self.let_out();
                self.delivery.forget(connection);
            }
        }
    }

    /// Serves a connection again whose client has read what was sent to it.
    fn hear_of_read(&mut self, connection: ConnectionId) {
        self.delivery.go_on_reading(connection);
        self.handle_asked(Input::Read { connection }, Some(Instant::now()));
    }

    fn obey(&mut self, control: ServerCommand) {
        match control {
            ServerCommand::SetHook(hook) => self.machine.set_hook(hook),
            ServerCommand::ExpireSession(session_id, done) => {
                let session_ids = self.machine.session_ids();
                self.handle(Input::Expire { session_id });
                self.let_out();
                let _ = done.send(session_ids.contains(&session_id));
            }
            ServerCommand::DropNextReply(opcode) => self.delivery.drop_next_reply(opcode),
            ServerCommand::Delay(delay) => self.delivery.delay = delay,
            ServerCommand::Blackhole(is_on) => self.delivery.is_blackholed = is_on,
            ServerCommand::Pause(true) => self.paused_at = self.paused_at.or_else(|| Some(Instant::now())),
            ServerCommand::Pause(false) => {
                if let Some(paused_at) = self.paused_at.take() {
                    self.clock.skip(paused_at.elapsed());
                }
            }
            ServerCommand::KeepFormerConnections => self.machine.keep_former_connections(),
            ServerCommand::ResetConnections(done) => {
                let _ = done.send(self.cut_all());
            }
            ServerCommand::SetChildrenMade(path, count, done) => {
                let _ = done.send(self.machine.set_children_made(&path, count));
            }
            ServerCommand::Restart(done) => {
                self.restart();
                let _ = done.send(());
            }
            ServerCommand::Inspect(done) => self.inspect(done),
            ServerCommand::Expose(done) => {
                let _ = done.send(self.delivery.measures().exposition(&self.machine.stock()));
            }
            ServerCommand::Shutdown(_) => (),
        }
    }

    /// The time, which stands still during a pause.
    fn moment(&self) -> ClockReading {
        self.clock.moment_at(self.paused_at.unwrap_or_else(Instant::now))
    }

    fn handle(&mut self, input: Input<'_>) {
        self.handle_asked(input, None);
    }

    /// Handles an input; the time of its answers is measured from `read_at`.
    fn handle_asked(&mut self, input: Input<'_>, read_at: Option<Instant>) {
        let moment = self.moment();
        self.machine.handle(moment, input);
        self.asked.note(self.machine.outputs_count(), read_at);
    }

    /// Stores the records of what was done, and sends the answers that may go out.
    fn let_out(&mut self) {
        loop {
            self.store();
            let Flushed { cut, read } = self.delivery.flush();
            for connection in cut {
                self.handle(Input::Closed { connection });
            }
            if read.is_empty() {
                return;
            }
            // Each has been sent a megabyte before it is here again.
            read.into_iter().for_each(|connection| self.hear_of_read(connection));
        }
    }

    /// Hands out what is to be stored and sent.
    fn store(&mut self) {
        let machine = &mut self.machine;
        let mut records: Vec<Bytes> = Vec::new();
        while let Some(output) = machine.poll_output() {
            records.extend(self.delivery.take(output, self.asked.take()));
        }
        self.asked.clear();
        if let Some(storage) = &mut self.storage {
            storage.append(records);
            if storage.wants_snapshot() {
                storage.begin_snapshot(machine.state_mut());
            }
            if self.paused_at.is_none() {
                storage.go_on(machine.state_mut());
            }
        }
    }

    /// Cuts all connections; their sessions live on.
    fn cut_all(&mut self) -> usize {
        self.let_out();
        let connections = self.delivery.cut_all_links();
        for connection in &connections {
            self.handle(Input::Closed { connection: *connection });
        }
        connections.len()
    }

    fn restart(&mut self) {
        self.let_out();
        self.delivery.cut_all_links();
        self.machine.restart(self.moment());
    }

    fn inspect(&self, done: oneshot::Sender<Inspection>) {
        let _ = done.send(Inspection {
            counters: self.machine.counters(),
            session_ids: self.machine.session_ids(),
            watches_count: self.machine.watches_count(),
            nodes_count: self.machine.nodes_count(),
            connections_count: self.delivery.connections_count(),
            zxid: self.machine.zxid(),
        });
    }

    /// Handles the result of storing records; `false` if the server cannot go on.
    fn hear_of_storage(&mut self, event: StorageEvent) -> bool {
        match event {
            StorageEvent::Stored(count) => self.delivery.stored(count),
            StorageEvent::Room => {
                tracing::warn!("records can be stored again: writes are accepted");
                self.refuse_writes(false);
            }
            StorageEvent::Refused { reason } => {
                tracing::error!(
                    "{reason}: writes are refused, and reads go on, until records can be stored: make room, or look \
                     to the disk"
                );
                return self.go_back();
            }
            StorageEvent::Gone { reason } => {
                tracing::error!(
                    "{reason}: writes are refused and reads go on; restore the data directory and start the server \
                     again"
                );
                // What has no answer yet has one in no case: its clients cannot know whether it took effect. It stays
                // in memory, as all that is left of the data does.
                self.cut_all();
                self.delivery.cut_all();
                self.refuse_writes(true);
            }
            StorageEvent::Failed { reason } => {
                return self.fail(format!("{reason}; what the disk holds is not known any more"));
            }
        }
        true
    }

    /// Goes back to what is stored: no client had an answer to what was done since.
    fn go_back(&mut self) -> bool {
        self.delivery.cut_all();
        self.asked.clear();
        let moment = self.moment();
        let Some(storage) = &mut self.storage else {
            return false;
        };
        match storage.reload() {
            Ok(state) => {
                self.machine.go_back(state, moment);
                self.refuse_writes(true);
                true
            }
            Err(error) => self.fail(match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            }),
        }
    }

    /// Notes why the server cannot go on.
    fn fail(&self, reason: String) -> bool {
        tracing::debug!(%reason, "the server stops");
        // There is one end, so it has one reason.
        let _ = self.end.set(reason);
        false
    }

    fn refuse_writes(&mut self, refuses: bool) {
        self.machine.set_refuses_writes(refuses);
    }

    /// Ends in order: what was accepted is stored and answered.
    async fn finish(&mut self) {
        self.let_out();
        while !self.delivery.is_all_stored() {
            let event = if_any(self.storage.as_mut().map(Storage::next_event)).await;
            let is_lost = matches!(event, StorageEvent::Refused { .. });
            if !self.hear_of_storage(event) || is_lost {
                break;
            }
            self.let_out();
        }
        if let Some(storage) = self.storage.take() {
            storage.close(self.machine.state_mut()).await;
        }
    }
}

/// Waits for a future once the runtime's other tasks had their turn: what is always ready would leave them none.
async fn after_others<T>(future: impl Future<Output = T>) -> T {
    tokio::task::yield_now().await;
    future.await
}

/// Waits for a future, or for ever if there is none.
async fn if_any<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
