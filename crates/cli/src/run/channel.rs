//! The messages between the runner on one side and the watchdog and its launcher on the other, and how they travel.
//!
//! A pair of connected sockets that keep messages apart: either side sees at once that the other has died, however it
//! died, and open files can travel along, so no descriptor has to survive an `exec` where the command could see it.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use lockkeeper::SafeUntil;
use lockkeeper::clock::BootInstant;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Files that one message can carry: stdin and the lifeline.
const FILES_MAX: usize = 2;

/// Every message is one tag and two numbers.
const MESSAGE_BYTES: usize = 17;

/// The longest environment that travels: the kernel takes no variable of more than 128 KiB, and no socket's buffer is
/// smaller by default.
const ENVIRONMENT_BYTES_MAX: usize = 160 * 1024;

/// Variables of an environment, by name and value.
pub(super) type Variables = Vec<(OsString, OsString)>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CommandEnd {
    Exited(i32),
    Signaled(i32),
}

/// Who ended the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EndCause {
    Itself,
    /// The watchdog, because the lock was lost or was about to be.
    Watchdog,
}

/// Whether the command's group gets the terminal before the command starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Foreground {
    Take,
    Leave,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// Runner → watchdog, with stdin and the lifeline, once it has the environment and the first deadline.
    Begin { grace: Duration, foreground: Foreground },
    /// Runner → watchdog: until when the hold may be believed, from now on.
    SafeUntil(SafeUntil),
    /// Runner → watchdog: pass this signal on.
    Signal(i32),
    /// Runner → watchdog: the lock is lost or to be given up: end the command, within this time if the grace is longer.
    End { within: Duration },
    /// Watchdog → launcher, with stdin, once it has the environment: become the command.
    Go { foreground: Foreground },
    /// Launcher → runner: the command cannot be executed.
    NotExecuted { errno: i32 },
    /// Watchdog or launcher → runner: the command cannot even be tried.
    NotLaunched { errno: i32 },
    /// Launcher → runner: the command's process id, before it starts.
    Launched { pid: i32 },
    /// Watchdog → runner: the command was stopped by this signal.
    Stopped { signal: i32 },
    /// Watchdog → runner: a signal that ends most commands was passed on.
    PassedOn,
    /// Watchdog → runner, last of all.
    Ended { end: CommandEnd, cause: EndCause },
}

/// Makes a connected pair; neither end is inherited by a program that is executed.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message without waiting for room.
/// Fails if the other side is gone, or has read nothing for hundreds of messages.
pub(super) fn send(socket: impl AsFd, message: Message, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(message);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(files));
        assert!(fits, "no message carries more than {FILES_MAX} files");
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message with its files; `None` when the other side is gone, however it went.
/// With [`RecvFlags::DONTWAIT`] it is `WouldBlock` when there is none; `InvalidData` for one that neither side sends.
pub(super) fn receive(socket: impl AsFd, flags: RecvFlags) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
    let mut bytes = [0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            // A side that died with unread messages of ours resets the connection, once; what it sent before is still
            // there.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    let message = decode(&bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some((message, files)))
}

/// Sends the variables that are added to a command's environment: runner → watchdog → launcher, first of all.
/// Fails if the other side is gone, or they are longer than an environment may be.
pub(super) fn send_environment(socket: impl AsFd, variables: &[(OsString, OsString)]) -> io::Result<()> {
    // Each ends with a zero byte, which no variable has; the first byte keeps an empty list apart from an end.
    let mut bytes = vec![b'E'];
    for (name, value) in variables {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            bytes.extend_from_slice(part);
        }
    }
    if bytes.len() > ENVIRONMENT_BYTES_MAX {
        return Err(rustix::io::Errno::TOOBIG.into());
    }
    rustix::net::send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives what [`send_environment`] sends, however long that takes; `None` when the other side is gone.
pub(super) fn receive_environment(socket: impl AsFd) -> io::Result<Option<Variables>> {
    // Asked for first: room for the longest would have the allocator tidy up, and so copy each page that is shared with
    // the process that we are a fork of.
    let count = receive_bytes(&socket, &mut [], RecvFlags::PEEK | RecvFlags::TRUNC)?;
    if count > ENVIRONMENT_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; count];
    if count == 0 || receive_bytes(&socket, &mut bytes, RecvFlags::empty())? == 0 {
        return Ok(None);
    }
    let Some((b'E', list)) = bytes.split_first() else { return Err(io::ErrorKind::InvalidData.into()) };
    let variable = |bytes: &[u8]| {
        let equals = bytes.iter().position(|&byte| byte == b'=')?;
        let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((part(&bytes[..equals]), part(&bytes[equals + 1..])))
    };
    let variables = list.split(|&byte| byte == 0).filter(|bytes| !bytes.is_empty()).map(variable);
    variables.collect::<Option<_>>().map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Receives one message without files; returns its length, also where that is more than there is room for, and 0 when
/// the other side is gone.
fn receive_bytes(socket: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    loop {
        match rustix::net::recv(&socket, &mut *bytes, flags) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(0),
            other => return Ok(other?.1),
        }
    }
}

/// Stands for [`SafeUntil::ProcessEnd`]; five centuries after boot.
const NO_DEADLINE: u64 = u64::MAX;

fn encode(message: Message) -> [u8; MESSAGE_BYTES] {
    let (tag, first, second) = match message {
        Message::Begin { grace, foreground } => (0, nanos(grace), u64::from(foreground == Foreground::Take)),
        Message::SafeUntil(SafeUntil::At(end)) => (1, end.as_nanos().min(NO_DEADLINE - 1), 0),
        Message::SafeUntil(SafeUntil::ProcessEnd) => (1, NO_DEADLINE, 0),
        Message::Signal(signal) => (2, number(signal), 0),
        Message::End { within } => (3, nanos(within), 0),
        Message::NotExecuted { errno } => (4, number(errno), 0),
        Message::NotLaunched { errno } => (5, number(errno), 0),
        Message::Launched { pid } => (6, number(pid), 0),
        Message::Stopped { signal } => (7, number(signal), 0),
        Message::Ended { end: CommandEnd::Exited(code), cause } => {
            (8, number(code), u64::from(cause == EndCause::Watchdog))
        }
        Message::Ended { end: CommandEnd::Signaled(signal), cause } => {
            (9, number(signal), u64::from(cause == EndCause::Watchdog))
        }
        Message::Go { foreground } => (10, u64::from(foreground == Foreground::Take), 0),
        Message::PassedOn => (11, 0, 0),
    };
    let mut bytes = [tag; MESSAGE_BYTES];
    bytes[1..9].copy_from_slice(&u64::to_le_bytes(first));
    bytes[9..].copy_from_slice(&u64::to_le_bytes(second));
    bytes
}

/// Five centuries are as good as more.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Process ids, signals, errors and exit codes are small and never negative.
fn number(value: i32) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Message> {
    let first = u64::from_le_bytes(bytes[1..9].try_into().expect("eight bytes"));
    let second = u64::from_le_bytes(bytes[9..].try_into().expect("eight bytes"));
    let small = i32::try_from(first);
    let cause = if second == 1 { EndCause::Watchdog } else { EndCause::Itself };
    Some(match bytes[0] {
        0 => Message::Begin { grace: Duration::from_nanos(first), foreground: take_if(second) },
        1 if first == NO_DEADLINE => Message::SafeUntil(SafeUntil::ProcessEnd),
        1 => Message::SafeUntil(SafeUntil::At(BootInstant::from_nanos(first))),
        2 => Message::Signal(small.ok()?),
        3 => Message::End { within: Duration::from_nanos(first) },
        4 => Message::NotExecuted { errno: small.ok()? },
        5 => Message::NotLaunched { errno: small.ok()? },
        6 => Message::Launched { pid: small.ok()? },
        7 => Message::Stopped { signal: small.ok()? },
        8 => Message::Ended { end: CommandEnd::Exited(small.ok()?), cause },
        9 => Message::Ended { end: CommandEnd::Signaled(small.ok()?), cause },
        10 => Message::Go { foreground: take_if(first) },
        11 => Message::PassedOn,
        _ => return None,
    })
}

const fn take_if(number: u64) -> Foreground {
    if number == 1 { Foreground::Take } else { Foreground::Leave }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        let (here, there) = pair().unwrap();
        let messages = [
            Message::Begin { grace: Duration::from_millis(2_500), foreground: Foreground::Take },
            Message::Begin { grace: Duration::ZERO, foreground: Foreground::Leave },
            Message::SafeUntil(SafeUntil::At(BootInstant::from_nanos(7))),
            Message::SafeUntil(SafeUntil::ProcessEnd),
            Message::Signal(15),
            Message::End { within: Duration::from_millis(1_500) },
            Message::Go { foreground: Foreground::Take },
            Message::Go { foreground: Foreground::Leave },
            Message::PassedOn,
            Message::NotExecuted { errno: 2 },
            Message::NotLaunched { errno: 11 },
            Message::Launched { pid: 4_121 },
            Message::Stopped { signal: 20 },
            Message::Ended { end: CommandEnd::Exited(0), cause: EndCause::Itself },
            Message::Ended { end: CommandEnd::Exited(255), cause: EndCause::Watchdog },
            Message::Ended { end: CommandEnd::Signaled(9), cause: EndCause::Watchdog },
        ];
        for message in messages {
            send(&here, message, &[]).unwrap();
        }
        drop(here);
        for message in messages {
            assert_eq!(receive(&there, RecvFlags::empty()).unwrap().unwrap().0, message);
        }
        assert!(receive(&there, RecvFlags::empty()).unwrap().is_none());
    }

    #[test]
    fn an_environment_arrives_as_it_was_sent() {
        let (here, there) = pair().unwrap();
        let text = OsString::from;
        let long = "x".repeat(ENVIRONMENT_BYTES_MAX / 2);
        for variables in [
            vec![],
            vec![(text("NAME"), text("a=b")), (text("EMPTY"), text("")), (text("LINES"), text("one\ntwo"))],
            vec![(text("NOT_UTF_8"), OsString::from_vec(vec![0xff])), (text("LONG"), text(&long))],
        ] {
            send_environment(&here, &variables).unwrap();
            assert_eq!(receive_environment(&there).unwrap(), Some(variables));
        }
        let too_long = vec![(text("A"), text(&long)), (text("B"), text(&long))];
        assert_eq!(send_environment(&here, &too_long).unwrap_err().kind(), io::ErrorKind::ArgumentListTooLong);
        send(&here, Message::Signal(15), &[]).unwrap();
        assert_eq!(receive_environment(&there).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(here);
        assert_eq!(receive_environment(&there).unwrap(), None);
    }

    #[test]
    fn files_travel_along_and_are_not_inherited() {
        let (here, there) = pair().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        send(&here, Message::Signal(15), &[reader.as_fd(), writer.as_fd()]).unwrap();
        drop(writer);
        let (_, files) = receive(&there, RecvFlags::empty()).unwrap().unwrap();
        let [_, writer] = <[OwnedFd; 2]>::try_from(files).unwrap();
        assert!(rustix::io::fcntl_getfd(&writer).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 2]).unwrap(), 1);
    }

    #[test]
    fn the_last_message_of_a_side_that_ended_with_unread_messages_arrives() {
        let (here, there) = pair().unwrap();
        let last_word = Message::Ended { end: CommandEnd::Exited(3), cause: EndCause::Itself };
        send(&there, last_word, &[]).unwrap();
        send(&here, Message::Signal(15), &[]).unwrap();
        drop(there);
        assert_eq!(receive(&here, RecvFlags::DONTWAIT).unwrap().unwrap().0, last_word);
        assert!(receive(&here, RecvFlags::DONTWAIT).unwrap().is_none());
    }
}
