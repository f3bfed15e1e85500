//! Snapshots, as an operator saves and restores them.

use std::path::Path;
use std::process::Command;

use super::Server;
use crate::Result;
use crate::template::run;

impl Server {
    /// Saves what it stores into a file that is not there yet. It stands alone.
    pub fn save_snapshot(&self, to: &Path) -> Result<()> {
        let endpoint = format!("--endpoints=http://{}", self.address());
        self.operate(&[endpoint.as_ref(), "snapshot".as_ref(), "save".as_ref(), to.as_os_str()])
    }

    /// Stops it, puts what a snapshot has into the place of its data, and starts it again on the same port.
    pub async fn restore_snapshot(&mut self, from: &Path) -> Result<()> {
        self.stop().await;
        self.forget()?;
        let (peers, member) = self.setup.as_member(&self.daemon);
        let data = self.data_folder();
        self.operate(&[
            "snapshot".as_ref(),
            "restore".as_ref(),
            from.as_os_str(),
            "--data-dir".as_ref(),
            data.as_os_str(),
            "--name".as_ref(),
            self.setup.name.as_ref(),
            "--initial-cluster".as_ref(),
            member.as_ref(),
            "--initial-advertise-peer-urls".as_ref(),
            peers.as_ref(),
        ])?;
        self.start()?;
        self.serving().await
    }

    /// Runs `etcdctl` to its end.
    fn operate(&self, arguments: &[&std::ffi::OsStr]) -> Result<()> {
        run(Command::new(self.release().operator()?).env("ETCDCTL_API", "3").args(arguments))
    }
}
