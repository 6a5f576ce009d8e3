//! Numbers that a resumed run draws again.

use pentad_model::RunId;
use pentad_model::canonical::sha256;

/// SHA-256 of the run's id and a counter: nothing to record, and no two runs share it.
pub(crate) struct Sequence {
    seed: [u8; 16],
    drawn: u64,
}

impl Sequence {
    /// Returns the sequence of a run.
    pub(crate) const fn of(run: RunId) -> Self {
        Self {
            seed: *run.0.as_bytes(),
            drawn: 0,
        }
    }

    /// Draws the next number.
    pub(crate) fn next(&mut self) -> u64 {
        let mut text = [0; 24];
        let (seed, count) = text.split_at_mut(16);
        seed.copy_from_slice(&self.seed);
        count.copy_from_slice(&self.drawn.to_le_bytes());
        self.drawn += 1;
        let digest = sha256(&text);
        digest
            .first_chunk::<8>()
            .map_or(0, |chunk| u64::from_le_bytes(*chunk))
    }
}
