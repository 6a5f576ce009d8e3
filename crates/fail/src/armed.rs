//! What happens at a point, as the environment says.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use crate::Point;

const POINTS: usize = Point::ALL.len();

/// What the environment says, read once.
struct Plan {
    what: What,
    report: Option<PathBuf>,
    passed: [AtomicU64; POINTS],
}

enum What {
    Nothing,
    Count,
    End { at: Point, nth: u64, signal: Signal },
}

static PLAN: OnceLock<Plan> = OnceLock::new();

impl Plan {
    fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let what = match variable("PENTAD_FAIL").as_deref() {
            None => What::Nothing,
            Some("count") => What::Count,
            Some(wanted) => end_at(wanted, variable("PENTAD_FAIL_MODE").as_deref()).unwrap_or_else(|| {
                // A test that names no point must not pass because nothing happened.
                eprintln!("PENTAD_FAIL={wanted} names no point and passing, or PENTAD_FAIL_MODE no mode.");
                std::process::exit(2)
            }),
        };
        Self {
            what,
            report: std::env::var_os("PENTAD_FAIL_REPORT").map(PathBuf::from),
            passed: [const { AtomicU64::new(0) }; POINTS],
        }
    }

    fn say(&self, lines: &str) -> std::io::Result<()> {
        let Some(path) = &self.report else { return Ok(()) };
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(lines.as_bytes())
    }
}

fn end_at(wanted: &str, mode: Option<&str>) -> Option<What> {
    let (name, nth) = wanted.split_once(':')?;
    let at = Point::ALL.iter().copied().find(|point| point.name() == name)?;
    let signal = match mode {
        None | Some("stop") => Signal::STOP,
        Some("kill") => Signal::KILL,
        Some(_) => return None,
    };
    let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
    Some(What::End { at, nth, signal })
}

/// Counts a passing, and ends the process's work where that is asked for.
pub(crate) fn pass(point: Point) {
    let plan = PLAN.get_or_init(Plan::from_environment);
    if matches!(plan.what, What::Nothing) {
        return;
    }
    let Some(passed) = plan.passed.get(point as usize) else {
        return;
    };
    let now = passed.fetch_add(1, Ordering::Relaxed) + 1;
    let What::End { at, nth, signal } = plan.what else {
        return;
    };
    if at != point || nth != now {
        return;
    }
    // Whoever waits for the line learns from the signal as well.
    let _unsaid = plan.say(&format!("{} {now}\n", point.name()));
    loop {
        // A process that was stopped and is continued stops again.
        let _ended = kill_process(getpid(), signal);
    }
}

/// Writes the counts.
pub(crate) fn report() -> std::io::Result<()> {
    let plan = PLAN.get_or_init(Plan::from_environment);
    if !matches!(plan.what, What::Count) {
        return Ok(());
    }
    let counted = Point::ALL.iter().zip(&plan.passed);
    let lines: String = counted
        .map(|(point, passed)| format!("{} {}\n", point.name(), passed.load(Ordering::Relaxed)))
        .collect();
    plan.say(&lines)
}
