//! The process that is measured: the embedded server, and nothing else.

use std::io::{self, Write};
use std::path::Path;

use lockkeeper_zk_server::EmbeddedServer;

use crate::Outcome;
use crate::load::one_thread;

/// Serves from this directory, and prints where; on one thread, as `lockkeeper server` does. Returns when it fails.
pub(crate) fn serve(directory: &Path) -> Outcome<()> {
    one_thread()?.block_on(async {
        let server = EmbeddedServer::builder().data_dir(directory).start().await?;
        println!("{}", server.address().ok_or("it does not listen")?);
        io::stdout().flush()?;
        server.stopped().await;
        Err("the server has stopped".into())
    })
}
