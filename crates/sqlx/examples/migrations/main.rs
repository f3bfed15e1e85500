//! Migrations under a lock: of many instances that start at once, one makes them, and the others wait and find them
//! made.
//!
//! ```text
//! cargo run -p lockkeeper-sqlx --example migrations -- postgres://app@localhost/app
//! ```

use std::error::Error;

use lockkeeper::Keeper;
use lockkeeper_sqlx::SqlxPool;
use sqlx::PgPool;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "postgres://postgres@localhost/postgres".to_owned());
    let pool = PgPool::connect(&url).await?;
    let keeper = lockkeeper::pool::connect(SqlxPool::new(pool.clone()), url.as_str())?;
    migrate(&keeper, &pool).await?;
    println!("the tables are up to date");
    keeper.close().await?;
    Ok(())
}

/// Makes what is missing, in turn with all other instances. If the lock is lost meanwhile, the work is dropped, and the
/// transaction of the migration under way with it.
pub(crate) async fn migrate(keeper: &Keeper, pool: &PgPool) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Without the lock of sqlx itself, which one connection keeps for as long as it takes.
    let mut migrator = Migrator::with_migrations(migrations());
    migrator.set_locking(false);
    let made = keeper.mutex("app/migrations")?.run(|_hold| migrator.run(pool)).await?;
    Ok(made?)
}

/// A program has them in a folder, and `sqlx::migrate!()` reads that.
fn migrations() -> Vec<Migration> {
    let migration = |version, description: &'static str, sql: &'static str| {
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(version, description.into(), MigrationType::Simple, sql, false)
    };
    vec![
        migration(1, "accounts", "CREATE TABLE account (id bigint PRIMARY KEY, amount bigint NOT NULL)"),
        migration(2, "owners", "ALTER TABLE account ADD COLUMN owner text"),
    ]
}
