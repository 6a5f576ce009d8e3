//! The words that a client, its spawner and its wardens exchange.
//!
//! Two sockets are used. The *main* socket between client and spawner carries 8-byte [`Order`]s, each
//! launch with four descriptors attached; small enough that a launch never blocks the spawner. The
//! *control* socket joins the client with one warden directly: a length-prefixed launch specification goes
//! down, [`Report`]s come up, and its end-of-file means on either side that the other side is gone.
//!
//! The encoding is our own because arguments and environments are bytes, not text, and because both ends
//! are always the same build of the same binary: there is no version to negotiate.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// The length of one message on the main socket and of one fixed-size message on a control socket.
pub(crate) const ORDER_BYTES: usize = 8;
/// The length of one report: kind, stage, two 32-bit numbers and the count of survivors.
pub(crate) const REPORT_BYTES: usize = 20;
/// The longest launch specification that a warden accepts; far above what the kernel lets an exec take.
pub(crate) const MAX_SPEC_BYTES: u32 = 16 * 1024 * 1024;

/// What the client asks of its spawner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Start a warden; the four descriptors attached are control, stdin, stdout and stderr.
    Launch,
    /// End every tree within this time, then exit.
    Shutdown { limit: Duration },
}

impl Order {
    pub(crate) fn encode(self) -> [u8; ORDER_BYTES] {
        let (kind, limit) = match self {
            Self::Launch => (1u32, Duration::ZERO),
            Self::Shutdown { limit } => (2, limit),
        };
        pair(kind, millis(limit))
    }

    pub(crate) fn decode(bytes: [u8; ORDER_BYTES]) -> Option<Self> {
        let (kind, limit) = unpair(bytes);
        match kind {
            1 => Some(Self::Launch),
            2 => Some(Self::Shutdown {
                limit: Duration::from_millis(limit.into()),
            }),
            _ => None,
        }
    }
}

/// What the client asks of one warden: end the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndTree {
    /// How long the tree may react to the end of its standard input before it is signalled.
    pub(crate) after_eof: Duration,
    /// How long the tree may react to SIGTERM before it is killed.
    pub(crate) grace: Duration,
}

impl EndTree {
    pub(crate) fn encode(self) -> [u8; ORDER_BYTES] {
        pair(millis(self.after_eof), millis(self.grace))
    }

    pub(crate) fn decode(bytes: [u8; ORDER_BYTES]) -> Self {
        let (after_eof, grace) = unpair(bytes);
        Self {
            after_eof: Duration::from_millis(after_eof.into()),
            grace: Duration::from_millis(grace.into()),
        }
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn pair(first: u32, second: u32) -> [u8; ORDER_BYTES] {
    let mut bytes = [0; ORDER_BYTES];
    let (low, high) = bytes.split_at_mut(4);
    low.copy_from_slice(&first.to_le_bytes());
    high.copy_from_slice(&second.to_le_bytes());
    bytes
}

fn unpair(bytes: [u8; ORDER_BYTES]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// The step of a launch that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The spawner or the warden could not fork.
    Fork,
    /// The warden could not set itself up.
    Setup,
    /// The working directory could not be entered.
    Cwd,
    /// A resource limit could not be set.
    Limit,
    /// No candidate for the program exists.
    Missing,
    /// The program exists, its interpreter does not.
    Interpreter,
    /// The kernel refused to run the program.
    Exec,
}

impl Stage {
    pub(crate) const ALL: [Self; 7] = [
        Self::Fork,
        Self::Setup,
        Self::Cwd,
        Self::Limit,
        Self::Missing,
        Self::Interpreter,
        Self::Exec,
    ];

    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Fork => 1,
            Self::Setup => 2,
            Self::Cwd => 3,
            Self::Limit => 4,
            Self::Missing => 5,
            Self::Interpreter => 6,
            Self::Exec => 7,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.code() == code)
    }
}

/// How a process ended, as the kernel told its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
}

/// Why a warden ended its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Nothing,
    Cancel,
    WallLimit,
    OwnerGone,
}

impl Cause {
    fn code(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Cancel => 1,
            Self::WallLimit => 2,
            Self::OwnerGone => 3,
        }
    }

    fn from_code(code: u32) -> Option<Self> {
        [Self::Nothing, Self::Cancel, Self::WallLimit, Self::OwnerGone]
            .into_iter()
            .find(|cause| cause.code() == code)
    }
}

/// What a warden tells its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The specification is read; from here on the command may have run.
    Accepted,
    /// The command runs.
    Started { pid: i32, warden: i32 },
    /// The command never ran.
    Failed { stage: Stage, errno: i32 },
    /// The command itself ended; its descendants may still live.
    Exited(Ending),
    /// No process of the tree is left, apart from the counted survivors of SIGKILL.
    Gone {
        cause: Cause,
        leftovers: u32,
        survivors: u32,
    },
}

impl Report {
    pub(crate) fn encode(self) -> [u8; REPORT_BYTES] {
        let words: [u32; 5] = match self {
            Self::Accepted => [1, 0, 0, 0, 0],
            Self::Started { pid, warden } => [2, pid.cast_unsigned(), warden.cast_unsigned(), 0, 0],
            Self::Failed { stage, errno } => [3, stage.code(), errno.cast_unsigned(), 0, 0],
            Self::Exited(Ending::Code(code)) => [4, 0, code.cast_unsigned(), 0, 0],
            Self::Exited(Ending::Signal(signal)) => [4, 1, signal.cast_unsigned(), 0, 0],
            Self::Gone {
                cause,
                leftovers,
                survivors,
            } => [5, cause.code(), leftovers, survivors, 0],
        };
        let mut bytes = [0; REPORT_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; REPORT_BYTES]) -> Option<Self> {
        let mut words = bytes
            .chunks_exact(4)
            .filter_map(|word| word.try_into().ok().map(u32::from_le_bytes));
        let [kind, a, b, c] = [words.next()?, words.next()?, words.next()?, words.next()?];
        Some(match kind {
            1 => Self::Accepted,
            2 => Self::Started {
                pid: a.cast_signed(),
                warden: b.cast_signed(),
            },
            3 => Self::Failed {
                stage: Stage::from_code(a)?,
                errno: b.cast_signed(),
            },
            4 if a == 0 => Self::Exited(Ending::Code(b.cast_signed())),
            4 => Self::Exited(Ending::Signal(b.cast_signed())),
            5 => Self::Gone {
                cause: Cause::from_code(a)?,
                leftovers: b,
                survivors: c,
            },
            _ => return None,
        })
    }
}

/// Everything that a warden must know to start and to guard one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LaunchSpec {
    /// Where to look for the program, in this order; one entry when the name has a slash.
    pub(crate) candidates: Vec<PathBuf>,
    /// The argument vector, `argv[0]` included.
    pub(crate) argv: Vec<OsString>,
    /// The whole environment as `NAME=value` strings.
    pub(crate) env: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) leaves_processes: bool,
    pub(crate) grace: Duration,
    pub(crate) wall: Option<Duration>,
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) open_files: Option<u64>,
}

impl LaunchSpec {
    /// Returns the specification with its own length in front.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        for list in [&self.argv, &self.env] {
            put_list(&mut out, list.iter().map(OsString::as_os_str));
        }
        put_list(&mut out, self.candidates.iter().map(|path| path.as_os_str()));
        put_list(&mut out, std::iter::once(self.cwd.as_os_str()));
        out.push(u8::from(self.leaves_processes));
        out.extend(nanos(self.grace).to_le_bytes());
        for number in [
            self.wall.map(nanos),
            self.cpu_seconds,
            self.memory_bytes,
            self.processes,
            self.open_files,
        ] {
            out.push(u8::from(number.is_some()));
            out.extend(number.unwrap_or(0).to_le_bytes());
        }
        let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(..4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        out
    }

    /// Reads a specification without its length; `None` when it is cut short or malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let argv = take_list(&mut rest)?;
        let env = take_list(&mut rest)?;
        let candidates = take_list(&mut rest)?.into_iter().map(PathBuf::from).collect();
        let cwd = take_list(&mut rest)?.into_iter().next().map(PathBuf::from)?;
        let leaves_processes = take::<1>(&mut rest)? == [1];
        let grace = Duration::from_nanos(u64::from_le_bytes(take(&mut rest)?));
        let mut number = || {
            let set = take::<1>(&mut rest)? == [1];
            let value = u64::from_le_bytes(take(&mut rest)?);
            Some(set.then_some(value))
        };
        Some(Self {
            candidates,
            argv,
            env,
            cwd,
            leaves_processes,
            grace,
            wall: number()?.map(Duration::from_nanos),
            cpu_seconds: number()?,
            memory_bytes: number()?,
            processes: number()?,
            open_files: number()?,
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn put_list<'a>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'a OsStr>) {
    out.extend(u32::try_from(items.len()).unwrap_or(u32::MAX).to_le_bytes());
    for item in items {
        out.extend(u32::try_from(item.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend(item.as_bytes());
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*first)
}

fn take_list(rest: &mut &[u8]) -> Option<Vec<OsString>> {
    let count = u32::from_le_bytes(take(rest)?);
    let mut items = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(u32::from_le_bytes(take(rest)?)).ok()?;
        let (item, tail) = rest.split_at_checked(length)?;
        *rest = tail;
        items.push(OsString::from_vec(item.to_vec()));
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn os_strings() -> impl Strategy<Value = Vec<OsString>> {
        proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(OsString::from_vec),
            0..8,
        )
    }

    proptest! {
        #[test]
        fn a_launch_spec_survives_the_wire(
            argv in os_strings(),
            env in os_strings(),
            cwd in proptest::collection::vec(any::<u8>(), 0..20),
            leaves_processes: bool,
            wall in proptest::option::of(any::<u64>()),
            memory_bytes in proptest::option::of(any::<u64>()),
        ) {
            let spec = LaunchSpec {
                candidates: argv.iter().map(PathBuf::from).collect(),
                argv,
                env,
                cwd: PathBuf::from(OsString::from_vec(cwd)),
                leaves_processes,
                grace: Duration::from_millis(1500),
                wall: wall.map(Duration::from_nanos),
                memory_bytes,
                ..LaunchSpec::default()
            };
            let bytes = spec.encode();
            prop_assert_eq!(LaunchSpec::decode(&bytes[4..]), Some(spec));
            prop_assert_eq!(LaunchSpec::decode(&bytes[4..bytes.len() - 1]), None);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LaunchSpec::decode(&bytes);
        }
    }

    #[test]
    fn every_report_survives_the_wire() {
        let mut reports = vec![
            Report::Accepted,
            Report::Started { pid: 7, warden: 9 },
            Report::Exited(Ending::Code(255)),
            Report::Exited(Ending::Signal(9)),
            Report::Gone {
                cause: Cause::WallLimit,
                leftovers: 3,
                survivors: 1,
            },
            Report::Gone {
                cause: Cause::Nothing,
                leftovers: 0,
                survivors: 0,
            },
            Report::Gone {
                cause: Cause::Cancel,
                leftovers: 0,
                survivors: 0,
            },
            Report::Gone {
                cause: Cause::OwnerGone,
                leftovers: 0,
                survivors: 0,
            },
        ];
        reports.extend(Stage::ALL.map(|stage| Report::Failed { stage, errno: 2 }));
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }
}
