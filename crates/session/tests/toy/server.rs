//! The toy's server: sessions, queues and values in memory, told of in lines of JSON over TCP. A question may stand
//! until its answer is due, as those for news do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock as _, SystemClock};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// How often the server looks which sessions have run out.
const TICK: Duration = Duration::from_millis(20);

/// A server. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_paused: watch::Sender<bool>,
    /// Counts its starts: connections of another one end.
    start: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The last number given to a contender, a change or a version.
    last: u64,
    sessions: BTreeMap<String, Session>,
    rows: Vec<Row>,
    values: BTreeMap<String, (u64, Json)>,
    /// When each lock has changed last.
    changes: BTreeMap<String, u64>,
    /// The questions whose answer is not due yet.
    standing: Vec<Standing>,
    last_connection: u64,
}

#[derive(Debug)]
struct Session {
    timeout: Duration,
    ends_at: BootInstant,
    /// The number of its latest connection.
    epoch: u64,
    /// What became of its contenders without its doing, in order.
    news: Vec<Json>,
}

/// A contender.
#[derive(Debug)]
struct Row {
    lock: String,
    part: u64,
    ticket: String,
    token: u64,
    mode: u64,
    /// `None` if it outlives its session.
    session: Option<String>,
    owner: String,
    record: Json,
    ask: Json,
}

#[derive(Debug)]
struct Standing {
    connection: u64,
    question: Json,
    to: mpsc::UnboundedSender<Json>,
}

impl Server {
    /// Starts one on a free port of this machine.
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Self {
            address: listener.local_addr()?,
            state: Arc::default(),
            is_paused: watch::Sender::new(false),
            start: watch::Sender::new(0),
        };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        let ticking = server.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                if !*ticking.is_paused.borrow() {
                    ticking.change(State::end_those_due);
                }
            }
        });
        Ok(server)
    }

    /// Stands still, or goes on.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.send_replace(is_paused);
    }

    /// Ends all connections, as a server that is started again does.
    pub(crate) fn restart(&self) {
        self.start.send_modify(|start| *start += 1);
    }

    /// Ends a session, as an operator does; tells whether there was one.
    pub(crate) fn expire(&self, session: &str) -> bool {
        self.change(|state| state.end(session))
    }

    /// Names the session that made a contender.
    pub(crate) fn owner(&self, ticket: &str) -> String {
        let state = self.state();
        let row = state.rows.iter().find(|row| row.ticket == ticket);
        row.map(|row| row.owner.clone()).unwrap_or_default()
    }

    /// Removes a contender, as an operator does.
    pub(crate) fn remove(&self, ticket: &str) {
        self.change(|state| state.remove(|row| row.ticket == ticket, "removed"));
    }

    /// Names what is stored.
    pub(crate) fn stored(&self) -> Vec<String> {
        let state = self.state();
        let rows = state.rows.iter().map(|row| format!("{} in {} ({})", row.ticket, row.lock, row.part));
        rows.chain(state.values.keys().filter(|name| !name.ends_with("#2")).cloned()).collect()
    }

    /// Nothing panics while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes something, and answers what is due then.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        state.answer_those_due();
        changed
    }

    async fn serve(self, stream: TcpStream) {
        let (reader, mut writer) = stream.into_split();
        let (to, mut answers) = mpsc::unbounded_channel::<Json>();
        let connection = self.change(|state| {
            state.last_connection += 1;
            state.last_connection
        });
        let mut start = self.start.subscribe();
        let reading = async {
            let (mut lines, mut is_paused) = (BufReader::new(reader).lines(), self.is_paused.subscribe());
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = is_paused.wait_for(|is_paused| !is_paused).await;
                let Ok(question) = serde_json::from_str::<Json>(&line) else { return };
                self.change(|state| state.take(connection, question, &to));
            }
        };
        let writing = async {
            let mut is_paused = self.is_paused.subscribe();
            while let Some(answer) = answers.recv().await {
                let _ = is_paused.wait_for(|is_paused| !is_paused).await;
                if writer.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
            _ = start.changed() => {}
        }
        self.change(|state| state.standing.retain(|standing| standing.connection != connection));
    }
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_default()
}

impl State {
    /// Answers a question, or keeps it until its answer is due.
    fn take(&mut self, connection: u64, question: Json, to: &mpsc::UnboundedSender<Json>) {
        let answer = match question["op"].as_str().unwrap_or_default() {
            "news" | "until" | "departure" => {
                self.standing.push(Standing { connection, question, to: to.clone() });
                return;
            }
            _ => self.answer(&question),
        };
        send(to, &question, answer);
    }

    fn answer_those_due(&mut self) {
        for standing in std::mem::take(&mut self.standing) {
            match self.due(&standing.question) {
                Some(answer) => send(&standing.to, &standing.question, answer),
                None => self.standing.push(standing),
            }
        }
    }

    /// The answer to a question that stands, if it is due.
    fn due(&self, question: &Json) -> Option<Json> {
        let Some(session) = self.sessions.get(&text(&question["session"])) else {
            return Some(json!({"word": "gone"}));
        };
        match question["op"].as_str()? {
            "news" => {
                let after = usize::try_from(number(&question["after"])).unwrap_or(usize::MAX);
                let news = session.news.get(after..).filter(|news| !news.is_empty())?;
                Some(json!({"word": "ok", "news": news}))
            }
            "until" => {
                let changed = self.changes.get(&text(&question["lock"])).copied().unwrap_or_default();
                (changed > number(&question["seen"])).then(|| json!({"word": "ok"}))
            }
            _ => {
                let is_there = |ticket: &Json| self.rows.iter().any(|row| row.ticket == text(ticket));
                let mine = &question["mine"];
                match (!mine.is_null() && !is_there(mine), is_there(&question["ahead"])) {
                    (true, _) => Some(json!({"word": "mine"})),
                    (false, true) => None,
                    (false, false) => Some(json!({"word": "left"})),
                }
            }
        }
    }

    fn answer(&mut self, question: &Json) -> Json {
        let name = text(&question["session"]);
        match question["op"].as_str().unwrap_or_default() {
            "open" => {
                let timeout = Duration::from_millis(number(&question["timeout_ms"]));
                let ends_at = SystemClock.now().saturating_add(timeout);
                self.sessions.insert(name, Session { timeout, ends_at, epoch: 1, news: Vec::new() });
                return json!({"word": "ok"});
            }
            "close" => {
                self.end(&name);
                return json!({"word": "ok"});
            }
            "look" => return self.view(question),
            "inspect" => return self.inspect(question),
            "queues" => {
                let names: Vec<_> = self.rows.iter().map(|row| &row.lock).collect();
                return json!({"word": "ok", "names": names});
            }
            "value" => return self.value(question),
            "request" => return self.request(question),
            _ => {}
        }
        let Some(session) = self.sessions.get_mut(&name) else {
            return json!({"word": "gone"});
        };
        let epoch = number(&question["epoch"]);
        match question["op"].as_str().unwrap_or_default() {
            "attach" => session.epoch = session.epoch.max(epoch),
            "renew" => session.ends_at = SystemClock.now().saturating_add(session.timeout),
            "leave" => return self.leave(question),
            "join" | "set_value" if session.epoch != epoch => return json!({"word": "stale"}),
            "join" => return self.join(question, &name),
            "set_value" => return self.set_value(question),
            _ => return json!({"word": "unknown"}),
        }
        json!({"word": "ok"})
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn note_change(&mut self, lock: &str) {
        let change = self.next();
        self.changes.insert(lock.to_owned(), change);
    }

    fn join(&mut self, question: &Json, session: &str) -> Json {
        let (lock, part) = (text(&question["lock"]), number(&question["part"]));
        let entries = question["entries"].as_array().cloned().unwrap_or_default();
        let anchors = entries.iter().map(|entry| &entry["anchor"]).filter(|anchor| !anchor.is_null());
        if !anchors.into_iter().all(|anchor| self.rows.iter().any(|row| row.ticket == text(anchor))) {
            return json!({"word": "anchor"});
        }
        for entry in &entries {
            let ticket = text(&entry["ticket"]);
            if self.rows.iter().any(|row| row.ticket == ticket) {
                continue;
            }
            let anchor = self.rows.iter().rposition(|row| row.ticket == text(&entry["anchor"]));
            let token = match anchor {
                Some(at) => self.rows[at].token,
                None => self.next(),
            };
            let is_persistent = entry["persistent"].as_bool() == Some(true);
            let row = Row {
                lock: lock.clone(),
                part,
                ticket,
                token,
                mode: number(&entry["mode"]),
                session: (!is_persistent).then(|| session.to_owned()),
                owner: session.to_owned(),
                record: entry["record"].clone(),
                ask: Json::Null,
            };
            // Those that share a token came one behind the other.
            let behind = self.rows.iter().rposition(|row| row.token == token).map_or(self.rows.len(), |at| at + 1);
            self.rows.insert(behind, row);
        }
        self.note_change(&lock);
        let token =
            |entry: &Json| self.rows.iter().find(|row| row.ticket == text(&entry["ticket"])).map(|row| row.token);
        let tokens: Vec<_> = entries.iter().map(token).collect();
        json!({"word": "ok", "tokens": tokens, "view": self.view(question)})
    }

    fn leave(&mut self, question: &Json) -> Json {
        let (ticket, session) = (text(&question["ticket"]), text(&question["session"]));
        if self.remove(|row| row.ticket == ticket, "").pop().is_some() {
            return json!({"word": "left"});
        }
        let news = &self.sessions[&session].news;
        let why = news
            .iter()
            .rfind(|news| news["ticket"] == ticket.as_str())
            .map_or_else(|| "removed".to_owned(), |news| text(&news["why"]));
        json!({"word": why})
    }

    /// Removes contenders, and has their sessions hear why unless they did it themselves.
    fn remove(&mut self, is_meant: impl Fn(&Row) -> bool, why: &str) -> Vec<Row> {
        let removed: Vec<_> = self.rows.extract_if(.., |row| is_meant(row)).collect();
        for row in &removed {
            self.note_change(&row.lock);
            if let Some(session) = self.sessions.get_mut(&row.owner).filter(|_| !why.is_empty()) {
                session.news.push(json!({"ticket": row.ticket, "why": why}));
            }
        }
        removed
    }

    /// Ends a session, and removes its contenders; tells whether there was one.
    fn end(&mut self, session: &str) -> bool {
        let was_there = self.sessions.remove(session).is_some();
        self.remove(|row| row.session.as_deref() == Some(session), "");
        was_there
    }

    fn end_those_due(&mut self) {
        let now = SystemClock.now();
        let due = self.sessions.iter().filter(|(_, session)| session.ends_at <= now);
        let due: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        due.iter().for_each(|session| _ = self.end(session));
    }

    fn request(&mut self, question: &Json) -> Json {
        let (lock, ticket) = (text(&question["lock"]), text(&question["ticket"]));
        let Some(row) = self.rows.iter_mut().find(|row| row.lock == lock && row.ticket == ticket) else {
            return json!({"word": "ok", "count": 0});
        };
        if question["token"].is_null() {
            row.ask = question["ask"].clone();
            let (owner, ask) = (row.owner.clone(), row.ask.clone());
            if let Some(session) = self.sessions.get_mut(&owner) {
                session.news.push(json!({"ticket": ticket, "ask": ask}));
            }
            return json!({"word": "ok", "count": 1});
        }
        let token = number(&question["token"]);
        let broken = self.remove(|row| row.ticket == ticket && row.token == token, "broken");
        json!({"word": "ok", "count": broken.len()})
    }

    /// Shows a whole queue, and what a contender asks for on the other side of the lock.
    fn view(&self, question: &Json) -> Json {
        let (lock, part) = (text(&question["lock"]), number(&question["part"]));
        let of_lock = || self.rows.iter().filter(|row| row.lock == lock);
        let contenders: Vec<_> =
            of_lock().filter(|row| row.part == part).map(|row| json!([row.ticket, row.mode])).collect();
        let opposite: &[u64] = if part == 0 { &[2, 1] } else { &[0] };
        let elsewhere = opposite.iter().find_map(|part| of_lock().find(|row| row.part == *part)).map(|row| row.mode);
        let seen = self.changes.get(&lock).copied().unwrap_or_default();
        json!({"word": "ok", "contenders": contenders, "elsewhere": elsewhere, "seen": seen})
    }

    fn inspect(&self, question: &Json) -> Json {
        let lock = text(&question["lock"]);
        let mut rows: Vec<_> = self.rows.iter().filter(|row| row.lock == lock).collect();
        // The line, then the permits, then the waiters for one.
        rows.sort_by_key(|row| [0, 2, 1][row.part as usize % 3]);
        let show = |row: &&Row| {
            json!({"ticket": row.ticket, "mode": row.mode, "token": row.token, "session": row.session,
                   "record": row.record, "ask": row.ask})
        };
        json!({"word": "ok", "rows": rows.iter().map(show).collect::<Vec<_>>()})
    }

    fn value(&self, question: &Json) -> Json {
        let (lock, part) = (text(&question["lock"]), number(&question["part"]));
        let seen = self.changes.get(&lock).copied().unwrap_or_default();
        match self.values.get(&format!("{lock}#{part}")) {
            Some((version, bytes)) => json!({"word": "ok", "version": version, "bytes": bytes, "seen": seen}),
            None => json!({"word": "ok", "seen": seen}),
        }
    }

    fn set_value(&mut self, question: &Json) -> Json {
        let (lock, part) = (text(&question["lock"]), number(&question["part"]));
        let name = format!("{lock}#{part}");
        let present = self.values.get(&name).map(|(version, _)| *version);
        let is_expected = match question["expected"].as_str() {
            Some("any") => true,
            Some(_) => present.is_none(),
            None => present == question["expected"].as_u64(),
        };
        if !is_expected {
            return json!({"word": "no"});
        }
        let version = self.next();
        match &question["bytes"] {
            Json::Null => drop(self.values.remove(&name)),
            bytes => drop(self.values.insert(name, (version, bytes.clone()))),
        }
        self.note_change(&lock);
        json!({"word": "ok", "version": version})
    }
}

fn send(to: &mpsc::UnboundedSender<Json>, question: &Json, mut answer: Json) {
    answer["n"] = question["n"].clone();
    // The connection may have ended.
    let _ = to.send(answer);
}
