//! Data in a file of SQLite, by the texts of `fence::sql`.

use std::sync::Arc;

use lockkeeper::clock::RuntimeClock;
use lockkeeper::fence::sql::{self, Statements};
use lockkeeper::testing::MemoryService;
use lockkeeper::{FencingToken, Hold};
use lockkeeper_faults::sqlite::{self, Shell};
use tokio::sync::Mutex;

use crate::databases::{LEDGERS, SHOWN};
use crate::rounds::{can_run, judge, play, steps, tokens};

/// Binds a token in the transaction that is open; what the answer has.
fn bind(shell: &mut Shell, statements: &Statements, name: &str, grant: &str, turn: u32) -> Vec<String> {
    let parameters = format!(
        ".parameter clear\n.parameter set ?1 \"'{name}'\"\n.parameter set ?2 {grant}\n.parameter set ?3 {turn}"
    );
    shell.ask(&format!("{parameters}\n{};", statements.bind)).unwrap()
}

#[tokio::test]
async fn an_overtaken_holder_writes_no_row_of_sqlite_in_a_fenced_transaction() {
    if !can_run(sqlite::availability()) {
        return;
    }
    let place = tempfile::TempDir::new().unwrap();
    let path = place.path().join("data");
    let shells = [Mutex::new(Shell::open(&path).unwrap()), Mutex::new(Shell::open(&path).unwrap())];
    let mut shell = shells[0].lock().await;
    shell.ask(&format!("{};", sql::SQLITE_PAIR.table)).unwrap();
    for ledger in LEDGERS {
        shell.ask(&format!("CREATE TABLE {ledger} (at INTEGER PRIMARY KEY, token TEXT);")).unwrap();
    }
    drop(shell);
    let memory = MemoryService::new(Arc::new(RuntimeClock::new()));
    let keepers = [memory.keeper(), memory.keeper()];
    let write = async |ledger: &str, hold: &Hold, pause: u32, is_fenced: bool| {
        steps(pause).await;
        let token = hold.fencing_token();
        let mut shell = shells[usize::from(pause.is_multiple_of(2))].lock().await;
        assert!(shell.ask("BEGIN IMMEDIATE;").unwrap().is_empty());
        if is_fenced {
            let (name, grant) = (hold.name().encoded(), token.as_i64().to_string());
            if bind(&mut shell, &sql::SQLITE_PAIR, &name, &grant, token.turn()) != ["1"] {
                shell.ask("ROLLBACK;").unwrap();
                return false;
            }
        }
        let insert = format!("INSERT INTO {ledger} (token) VALUES ('{token}');\nCOMMIT;");
        assert!(shell.ask(&insert).unwrap().is_empty());
        true
    };
    play(keepers.each_ref(), async |hold: &Hold, pause| write("fenced", hold, pause, true).await).await;
    play(keepers.each_ref(), async |hold: &Hold, pause| write("plain", hold, pause, false).await).await;
    let mut written = Vec::new();
    for ledger in LEDGERS {
        let rows = shells[0].lock().await.ask(&format!("SELECT token FROM {ledger} ORDER BY at;")).unwrap();
        written.push(tokens(rows.iter().map(String::as_str)));
    }
    judge("SQLite", &written[0], &written[1]);
}

#[test]
fn sqlite_compares_tokens_of_each_lock_and_keeps_them_in_its_file() {
    if !can_run(sqlite::availability()) {
        return;
    }
    for (statements, is_pair) in [(sql::SQLITE, false), (sql::SQLITE_PAIR, true)] {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("data");
        Shell::open(&path).unwrap().ask(&format!("{};", statements.table)).unwrap();
        for (name, token, by_grant, by_pair) in SHOWN {
            let token: FencingToken = token.parse().unwrap();
            // Another process each time.
            let mut shell = Shell::open(&path).unwrap();
            let answer = bind(&mut shell, &statements, name, &token.as_i64().to_string(), token.turn());
            assert_eq!(answer == ["1"], if is_pair { by_pair } else { by_grant }, "{name} {token}, a pair: {is_pair}");
        }
        let mut shell = Shell::open(&path).unwrap();
        for wrong in ["-1", "9223372036854775808", "'one'", "NULL"] {
            let answer = bind(&mut shell, &statements, "z", wrong, 0);
            assert!(answer.iter().any(|line| line.contains("constraint failed")), "{wrong}: {answer:?}");
        }
        assert_eq!(shell.ask("SELECT count(*) FROM lk_fence;").unwrap(), ["3"]);
    }
}
