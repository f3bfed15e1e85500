//! Binding a hold's token in a transaction of a driver, by one call.

use std::error::Error;
use std::fmt;

use crate::{FencingToken, Hold, QueueName};

/// A transaction of a driver in which tokens are bound.
///
/// It is there for `tokio_postgres::Transaction` with the feature `fence-postgres`, and for `mysql_async::Transaction`
/// with `fence-mysql`. For another driver it is a few lines around the texts of [this module](super).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no transaction in which tokens can be bound",
    note = "the feature `fence-postgres` is for `tokio_postgres::Transaction`, `fence-mysql` for `mysql_async`'s"
)]
pub trait FencedTransaction: Send {
    /// The driver's error.
    type Error: Error;

    /// Binds the pair of grant and turn for the lock of this encoded name; `false` if a greater one was bound.
    fn bind_token(
        &mut self,
        name: String,
        grant: i64,
        turn: i64,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// Binds the hold's token, so that what the transaction writes is refused if another holder was there since: then the
/// transaction is not to be committed, and `?` leaves it to be rolled back.
///
/// It binds the pair of grant and turn, in the table `lk_fence`, which [`Statements::table`](super::Statements::table)
/// makes once.
///
/// ```no_run
/// # #[cfg(feature = "fence-postgres")]
/// # async fn move_money(client: &mut tokio_postgres::Client, guard: &lockkeeper::MutexGuard)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper::fence;
///
/// let mut transaction = client.transaction().await?;
/// fence::sql::bind(&mut transaction, guard.hold()).await?;
/// transaction.execute("UPDATE account SET amount = amount - 1", &[]).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`BindError::Overtaken`]; and what the driver says, as when the table is missing.
pub async fn bind<T: FencedTransaction>(transaction: &mut T, hold: &Hold) -> Result<(), BindError<T::Error>> {
    let (lock, token) = (hold.name(), hold.fencing_token());
    match transaction.bind_token(lock.encoded(), token.as_i64(), token.turn().into()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(BindError::Overtaken { lock: lock.clone(), token }),
        Err(error) => Err(BindError::Driver(error)),
    }
}

/// Why a token was not bound.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the fence refuses, or there is no answer of it")]
pub enum BindError<E> {
    /// A later holder of the lock has bound a greater token.
    Overtaken {
        /// The lock.
        lock: QueueName,
        /// The token that was refused.
        token: FencingToken,
    },
    /// The driver's error.
    Driver(E),
}

impl<E: fmt::Display> fmt::Display for BindError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overtaken { lock, token } => {
                write!(formatter, "{lock}: the token {token} was overtaken: a later holder has written")
            }
            Self::Driver(error) => write!(formatter, "the token could not be bound: {error}"),
        }
    }
}

impl<E: Error + 'static> Error for BindError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Overtaken { .. } => None,
            Self::Driver(error) => Some(error),
        }
    }
}

#[cfg(feature = "fence-postgres")]
impl FencedTransaction for tokio_postgres::Transaction<'_> {
    type Error = tokio_postgres::Error;

    async fn bind_token(&mut self, name: String, grant: i64, turn: i64) -> Result<bool, Self::Error> {
        let bound = self.query_opt(super::POSTGRES_PAIR.bind, &[&name, &grant, &turn]).await?;
        Ok(bound.is_some())
    }
}

#[cfg(feature = "fence-mysql")]
impl FencedTransaction for mysql_async::Transaction<'_> {
    type Error = mysql_async::Error;

    async fn bind_token(&mut self, name: String, grant: i64, turn: i64) -> Result<bool, Self::Error> {
        use mysql_async::prelude::Queryable as _;

        let pair = (name, grant, turn);
        self.exec_drop(super::MYSQL_PAIR.bind, &pair).await?;
        let confirmed: Option<u8> = self.exec_first(super::MYSQL_PAIR_CONFIRM, &pair).await?;
        Ok(confirmed.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Answers so.
    struct Answers(Option<bool>);

    impl FencedTransaction for Answers {
        type Error = io::Error;

        async fn bind_token(&mut self, name: String, _: i64, _: i64) -> Result<bool, io::Error> {
            assert_eq!(name, "led%20ger");
            self.0.ok_or_else(|| io::Error::other("the table is missing"))
        }
    }

    #[tokio::test]
    async fn a_refusal_names_the_lock_and_its_token_and_the_drivers_error_is_kept() {
        let keeper = crate::Keeper::memory();
        let guard = keeper.mutex("led ger").unwrap().lock().await.unwrap();
        bind(&mut Answers(Some(true)), guard.hold()).await.unwrap();
        let overtaken = bind(&mut Answers(Some(false)), guard.hold()).await.unwrap_err();
        let told = format!("led ger: the token {} was overtaken", guard.fencing_token());
        assert!(overtaken.to_string().starts_with(&told) && overtaken.source().is_none(), "{overtaken}");
        let failed = bind(&mut Answers(None), guard.hold()).await.unwrap_err();
        assert!(failed.to_string().contains("table is missing") && failed.source().is_some(), "{failed}");
    }
}
