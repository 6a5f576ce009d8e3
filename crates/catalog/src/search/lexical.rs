//! Ranking without a model: names first, then BM25 over weighted fields.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::bm25::Segment;
use super::names::Wanted;
use super::tokens::Terms;
use super::{Ranked, Ranker, Snapshot};
use crate::visibility::Visibility;

const K1: f32 = 1.2;
const B: f32 = 0.6;

/// The lexical ranker. Its index is built by the first search and then follows the sources: only a source whose
/// snapshot changed is touched, and in it only the documents that changed are analysed.
#[derive(Default)]
pub struct Lexical {
    terms: Terms,
    segments: Mutex<HashMap<String, Built>>,
    /// Held while a segment is built, so that many first searches build it once.
    building: Mutex<()>,
}

struct Built {
    of: Arc<Snapshot>,
    segment: Arc<Segment>,
}

impl std::fmt::Debug for Lexical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lexical").finish_non_exhaustive()
    }
}

impl Lexical {
    /// Returns the index of a snapshot. Searches whose snapshots are indexed go on while another one is built.
    pub(super) fn segment(&self, snapshot: &Arc<Snapshot>) -> Arc<Segment> {
        if let Ok(segment) = self.present(snapshot) {
            return segment;
        }
        let _only_one = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = match self.present(snapshot) {
            Ok(segment) => return segment,
            Err(previous) => previous,
        };
        let name = snapshot.source.name();
        let segment = Arc::new(Segment::new(
            name,
            &snapshot.documents,
            previous.as_deref(),
            &self.terms,
        ));
        let built = Built {
            of: Arc::clone(snapshot),
            segment: Arc::clone(&segment),
        };
        self.segments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), built);
        segment
    }

    /// Returns the index of exactly this snapshot, else that of an earlier one.
    fn present(&self, snapshot: &Arc<Snapshot>) -> Result<Arc<Segment>, Option<Arc<Segment>>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        match segments.get(snapshot.source.name()) {
            Some(built) if Arc::ptr_eq(&built.of, snapshot) => Ok(Arc::clone(&built.segment)),
            Some(built) => Err(Some(Arc::clone(&built.segment))),
            None => Err(None),
        }
    }
}

/// The part of the corpus that the caller sees, with the sizes that BM25 needs of exactly that part.
struct Shown<'a> {
    snapshot: &'a Snapshot,
    segment: Arc<Segment>,
    /// `None` when everything shows.
    mask: Option<Vec<bool>>,
    count: usize,
    length: f32,
}

impl<'a> Shown<'a> {
    fn new(snapshot: &'a Snapshot, segment: Arc<Segment>, visibility: &Visibility) -> Self {
        let all = snapshot.documents.len();
        if visibility.is_unrestricted() {
            let length = segment.total_length();
            return Self {
                snapshot,
                segment,
                mask: None,
                count: all,
                length,
            };
        }
        let mask: Vec<bool> = (0..all).map(|at| snapshot.shows(at, visibility)).collect();
        let shown = || {
            mask.iter()
                .enumerate()
                .filter(|(_, shows)| **shows)
                .map(|(at, _)| at)
        };
        let length = shown()
            .filter_map(|at| u32::try_from(at).ok())
            .map(|at| segment.length(at))
            .sum();
        Self {
            count: shown().count(),
            length,
            snapshot,
            segment,
            mask: Some(mask),
        }
    }

    fn shows(&self, document: u32) -> bool {
        self.mask.as_ref().is_none_or(|mask| {
            usize::try_from(document)
                .ok()
                .and_then(|at| mask.get(at))
                .is_some_and(|shows| *shows)
        })
    }
}

impl Ranker for Lexical {
    fn rank(
        &self,
        query: &str,
        corpus: &[Arc<Snapshot>],
        visibility: &Visibility,
        limit: usize,
    ) -> Vec<Ranked> {
        let shown: Vec<Shown<'_>> = corpus
            .iter()
            .map(|snapshot| Shown::new(snapshot, self.segment(snapshot), visibility))
            .collect();
        let mut scores: HashMap<(usize, u32), f32> = HashMap::new();
        add_texts(&self.terms.of_query(query), &shown, &mut scores);
        add_names(&Wanted::of(query), &shown, &mut scores);
        let mut ranked: Vec<((usize, u32), f32)> = scores.into_iter().collect();
        ranked.sort_by(|(a, x), (b, y)| {
            y.total_cmp(x)
                .then_with(|| full_name(&shown, *a).cmp(&full_name(&shown, *b)))
                .then_with(|| a.cmp(b))
        });
        ranked
            .into_iter()
            .take(limit)
            .filter_map(|((source, document), score)| {
                Some(Ranked {
                    source,
                    document: usize::try_from(document).ok()?,
                    score,
                })
            })
            .collect()
    }

    fn forget(&self, source: &str) {
        self.segments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(source);
    }
}

fn full_name<'a>(shown: &'a [Shown<'_>], (source, document): (usize, u32)) -> Option<(&'a str, &'a str)> {
    let snapshot = shown.get(source)?.snapshot;
    let tool = &snapshot.documents.get(usize::try_from(document).ok()?)?.tool;
    Some((&tool.source, &tool.name))
}

#[allow(clippy::cast_precision_loss)]
fn add_texts(terms: &[String], shown: &[Shown<'_>], scores: &mut HashMap<(usize, u32), f32>) {
    let documents: usize = shown.iter().map(|s| s.count).sum();
    let length: f32 = shown.iter().map(|s| s.length).sum();
    if documents == 0 || length <= 0.0 {
        return;
    }
    let average = length / documents as f32;
    for term in terms {
        let found: Vec<(usize, u32, f32)> = shown
            .iter()
            .enumerate()
            .flat_map(|(source, part)| {
                part.segment
                    .postings(term)
                    .iter()
                    .filter(|(document, _)| part.shows(*document))
                    .map(move |(document, weight)| (source, *document, *weight))
            })
            .collect();
        let holding = found.len() as f32;
        let rarity = ((documents as f32 - holding + 0.5) / (holding + 0.5)).ln_1p();
        for (source, document, weight) in found {
            let own = shown
                .get(source)
                .map_or(0.0, |part| part.segment.length(document));
            let norm = K1 * (1.0 - B + B * own / average);
            *scores.entry((source, document)).or_default() += rarity * weight * (K1 + 1.0) / (weight + norm);
        }
    }
}

fn add_names(wanted: &Wanted, shown: &[Shown<'_>], scores: &mut HashMap<(usize, u32), f32>) {
    let mut met: HashMap<(usize, u32), f32> = HashMap::new();
    for typos in [false, true] {
        if typos && !met.is_empty() {
            break;
        }
        for (source, part) in shown.iter().enumerate() {
            part.segment.names.meet(wanted, typos, |document, meeting| {
                if part.shows(document) {
                    let bonus = met.entry((source, document)).or_default();
                    *bonus = bonus.max(meeting.bonus());
                }
            });
        }
    }
    for (place, bonus) in met {
        *scores.entry(place).or_default() += bonus;
    }
}
