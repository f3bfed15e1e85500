//! Data in a file of SQLite, by the texts of `fence::sql`.

use lockkeeper::fence::sql::{self, Statements};
use lockkeeper_faults::sqlite::{self, Shell};
use tempfile::TempDir;

use crate::databases::{Database, Place, compares_and_keeps, is_made_by_many_at_once, writes_no_row};
use crate::rounds::can_run;

/// Binds a token in the transaction that is open; what the answer has.
fn bind(shell: &mut Shell, statements: &Statements, name: &str, grant: &str, turn: u32) -> Vec<String> {
    let parameters = format!(
        ".parameter clear\n.parameter set ?1 \"'{name}'\"\n.parameter set ?2 {grant}\n.parameter set ?3 {turn}"
    );
    shell.ask(&format!("{parameters}\n{};", statements.bind)).unwrap()
}

impl Database for Shell {
    const BEGIN: &str = "BEGIN IMMEDIATE";

    async fn say(&mut self, sql: &str) {
        assert_eq!(self.ask(&format!("{sql};")).unwrap(), [""; 0]);
    }

    async fn bind(&mut self, to: &Statements, name: &str, grant: i64, turn: Option<u32>) -> Result<bool, String> {
        let answer = bind(self, to, name, &grant.to_string(), turn.unwrap_or_default());
        match answer.iter().find(|line| line.contains("constraint failed")) {
            Some(refused) => Err(refused.clone()),
            None => Ok(answer == ["1"]),
        }
    }

    async fn column(&mut self, sql: &str) -> Vec<String> {
        self.ask(&format!("{sql};")).unwrap()
    }
}

/// Each connection is another process.
impl Place for TempDir {
    type Client = Shell;

    async fn connect(&self) -> Shell {
        Shell::open(&self.path().join("data")).unwrap()
    }

    async fn restart(&mut self) {}
}

#[tokio::test]
async fn an_overtaken_holder_writes_no_row_of_sqlite_in_a_fenced_transaction() {
    if can_run(sqlite::availability()) {
        writes_no_row("SQLite", &TempDir::new().unwrap(), &sql::SQLITE_PAIR, "INTEGER PRIMARY KEY").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_fleet_makes_the_table_of_sqlite_at_once_and_none_fails() {
    if can_run(sqlite::availability()) {
        is_made_by_many_at_once(&TempDir::new().unwrap(), &sql::SQLITE).await;
    }
}

#[tokio::test]
async fn sqlite_compares_tokens_of_each_lock_and_keeps_them_in_its_file() {
    if !can_run(sqlite::availability()) {
        return;
    }
    let mut place = TempDir::new().unwrap();
    compares_and_keeps(&mut place, [&sql::SQLITE, &sql::SQLITE_PAIR]).await;
    let mut shell = place.connect().await;
    for statements in [sql::SQLITE, sql::SQLITE_PAIR] {
        for wrong in ["-1", "9223372036854775808", "'one'", "NULL"] {
            let answer = bind(&mut shell, &statements, "z", wrong, 0);
            assert!(answer.iter().any(|line| line.contains("constraint failed")), "{wrong}: {answer:?}");
        }
    }
    assert_eq!(shell.column("SELECT count(*) FROM lk_fence").await, ["3"]);
}
