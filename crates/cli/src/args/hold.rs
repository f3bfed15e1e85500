//! The options of `hold`.

use clap::Args;

use super::claim::ClaimArgs;

/// Hold a lock without a command, until stdin ends
#[derive(Args, Debug)]
#[command(after_help = "\
Prefer `lockkeeper run`: it ends its command when the lock is lost. This cannot stop the script around it, which may \
go on while another client is granted the lock; have it read what is printed, and send the token with its writes.

Example, in a script that holds the lock for some of its steps:
  mkfifo lock.in lock.out
  lockkeeper hold nightly-backup <lock.in >lock.out &
  exec 3>lock.in 4<lock.out            # held until 3 is closed, or the script and all that it has started end
  read -r token <&4 || exit 1          # nothing to read: it was not acquired
  echo \"backing up with token $token\"
  exec 3>&-                            # gives the lock back
  wait
  rm lock.in lock.out

What the script starts has descriptor 3 too, and keeps the lock as long as it lives. Start with 3 closed what goes on \
in the background: `cmd 3>&- &`.

The token is printed in one line on stdout once the lock is held. It is given back when stdin ends, at HUP, INT and \
TERM, and when a request to give the lock up comes (`lockkeeper revoke`). When the lock is lost, a line `lost REASON` \
is printed.

Exit codes:
  0     stdin ended, and the lock was given back
  123   the lock was lost, broken by an operator or held for --max-hold
  124   the lock was not acquired in time
  125   lockkeeper failed, or stdin was closed at the start; a line says why
  128+n signal n ended it; 143, as by TERM, if the lock was revoked")]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
}
