//! Waiting for the end of stdin of any kind: a pipe, a terminal, a socket, a file. Its content is ignored.

use std::io::{self, ErrorKind, Read as _};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use tokio::sync::oneshot;

use crate::exit::CommandFailure;

/// How many bytes one read takes; they are thrown away.
const READ_BYTES_MAX: usize = 4096;

/// How long a terminal that we may not read, because we are in the background, is left alone.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct StdinEnd {
    end: oneshot::Receiver<()>,
}

impl StdinEnd {
    /// Starts to wait for it, on a separate thread: not every stdin can be waited for otherwise.
    /// Fails if it is closed already, or is empty and stays so, as in cron and in a shell's background.
    pub(crate) fn watch() -> Result<Self, CommandFailure> {
        let failed = |error: io::Error| CommandFailure::ours(format!("cannot wait for the end of stdin: {error}"));
        // So that reading a terminal from the background fails, here and on the thread, instead of stopping us.
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTTIN);
        mask.thread_block().map_err(|errno| failed(errno.into()))?;
        if has_ended_already().map_err(|errno| failed(errno.into()))? {
            return Err(CommandFailure::ours(
                "stdin is closed or empty, and `hold` holds the lock until it ends: give it a pipe or a FIFO that \
                 stays open, as `lockkeeper help hold` shows",
            ));
        }
        let (sender, end) = oneshot::channel();
        let wait = move || {
            until_end();
            // If this fails, the end is not waited for any more.
            let _ = sender.send(());
        };
        std::thread::Builder::new().name("lockkeeper-stdin".to_owned()).spawn(wait).map_err(failed)?;
        Ok(Self { end })
    }

    pub(crate) async fn come(&mut self) {
        // The thread sends before it ends.
        let _ = (&mut self.end).await;
    }
}

/// Tells whether the first look finds the end. Closed descriptors are `/dev/null` by now: the standard library opens it
/// in their place.
fn has_ended_already() -> Result<bool, Errno> {
    let stdin = stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
        return Ok(false);
    }
    let told = polled[0].revents();
    if !told.contains(PollFlags::IN) {
        return Ok(told.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL));
    }
    match rustix::io::read(stdin, &mut [0; READ_BYTES_MAX]) {
        Ok(count) => Ok(count == 0),
        // A terminal in the background.
        Err(Errno::IO | Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn until_end() {
    let mut bytes = [0; READ_BYTES_MAX];
    loop {
        match io::stdin().read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_readable(),
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) && !has_hung_up() => pause(),
            Err(_) => return,
        }
    }
}

fn wait_readable() {
    let stdin = stdin();
    let _ = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None);
}

fn has_hung_up() -> bool {
    let stdin = stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::empty())];
    let looked = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    looked.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn pause() {
    let span = Timespec { tv_sec: 0, tv_nsec: i64::from(BACKGROUND_PAUSE.subsec_nanos()) };
    let _ = poll(&mut [], Some(&span));
}
