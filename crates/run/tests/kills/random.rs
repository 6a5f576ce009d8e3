//! Kills at random moments, several in a row on one state.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::scenario::NAMES;
use crate::trial::{End, Trial};

const KILLS: usize = 300;
const LONG: usize = 10_000;
/// Most kills of one trial.
const IN_A_ROW: u64 = 6;
/// Longest time from a start to its kill.
const LATEST: Duration = Duration::from_millis(60);
const AT_ONCE: usize = 4;

/// SplitMix64: small, and the same everywhere for one seed.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Returns the seed that is given, or a new one.
pub fn seed() -> u64 {
    let given = std::env::var("PENTAD_TEST_SEED").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        u64::from(now.unwrap().subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
    })
}

pub fn test() {
    let (began, seed) = (Instant::now(), seed());
    println!("PENTAD_TEST_SEED={seed} repeats this");
    let wanted = if std::env::var_os("PENTAD_TEST_LONG").is_some() {
        LONG
    } else {
        KILLS
    };
    let (next, kills) = (Mutex::new(0_u64), Mutex::new(0_usize));
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while *kills.lock().unwrap() < wanted && faults.lock().unwrap().is_empty() {
                    let number = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        *next
                    };
                    match one(&mut Dice(seed.wrapping_add(number))) {
                        Ok(times) => *kills.lock().unwrap() += times,
                        Err(why) => faults.lock().unwrap().push(format!("trial {number}: {why}")),
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(
        faults.is_empty(),
        "PENTAD_TEST_SEED={seed}:\n{}",
        faults.join("\n")
    );
    println!(
        "{} kills in {} trials in {} s",
        kills.into_inner().unwrap(),
        next.into_inner().unwrap(),
        began.elapsed().as_secs()
    );
}

/// Runs one trial and returns how often its host was killed.
fn one(dice: &mut Dice) -> Result<usize, String> {
    let kind = usize::try_from(dice.roll(NAMES.len() as u64)).unwrap();
    let name = NAMES[kind];
    let trial = Trial::new(name, dice.roll(2) == 0);
    let mut kills = 0;
    let mut last = End::Killed;
    for _ in 0..=dice.roll(IN_A_ROW) {
        let micros = u64::try_from(LATEST.as_micros()).unwrap();
        let named = |why: String| format!("{name} after {kills} kills: {why}");
        last = trial
            .kill_after(Duration::from_micros(dice.roll(micros)))
            .map_err(named)?;
        if last == End::Finished {
            break;
        }
        kills += 1;
    }
    trial
        .finish(last)
        .map_err(|why| format!("{name} after {kills} kills: {why}"))?;
    Ok(kills)
}
