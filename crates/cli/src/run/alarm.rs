//! One timer on the clock that goes on while the machine is suspended.
//!
//! `poll` and the runtime's timers stand still in a suspend. After it they would fire late by the whole sleep, long
//! after the end of the hold.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lockkeeper::clock::BootInstant;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Becomes readable when its moment has come.
#[derive(Debug)]
pub(super) struct BootAlarm {
    timer: OwnedFd,
    set_for: Option<BootInstant>,
}

impl BootAlarm {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Self { timer, set_for: None })
    }

    /// Sets it for a moment, or for none; a moment in the past is now.
    ///
    /// This process cannot cause an error here.
    pub(super) fn set(&mut self, moment: Option<BootInstant>) -> io::Result<()> {
        if self.set_for == moment {
            return Ok(());
        }
        // All zero means "not set", so a moment at boot is moved by a nanosecond.
        let nanos = moment.map_or(0, |moment| moment.as_nanos().max(1));
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).expect("2^64 ns are fewer than 2^63 s"),
            tv_nsec: i64::try_from(nanos % 1_000_000_000).expect("less than 10^9"),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value: value })?;
        self.set_for = moment;
        Ok(())
    }
}

impl AsFd for BootAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
