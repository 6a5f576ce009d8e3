//! One source's inverted index with weighted fields.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pentad_model::tool::ToolDocument;
use serde_json::Value;

use super::names::Names;
use super::tokens::Terms;

const NAME: f32 = 3.0;
const TITLE: f32 = 1.5;
const SOURCE: f32 = 1.0;
const DESCRIPTION: f32 = 1.0;
const ARGUMENT: f32 = 0.5;
const ARGUMENT_TEXT: f32 = 0.25;

/// Text of one field that is looked at, in bytes.
const MAX_FIELD_BYTES: usize = 16 * 1024;
/// Arguments whose names and texts are looked at.
const MAX_ARGUMENTS: usize = 200;
/// How deep nested arguments are looked at.
const MAX_DEPTH: usize = 4;

/// The terms of one document: how often each occurs, by weight of its field.
pub(super) struct Analysis {
    document: Arc<ToolDocument>,
    terms: Vec<(String, f32)>,
    length: f32,
}

impl Analysis {
    fn new(document: &Arc<ToolDocument>, terms: &Terms) -> Self {
        let mut counts: BTreeMap<String, f32> = BTreeMap::new();
        let mut length = 0.0;
        let mut field = |text: &str, weight: f32| {
            terms.each(pentad_model::text::prefix(text, MAX_FIELD_BYTES), |term| {
                *counts.entry(term).or_default() += weight;
                length += weight;
            });
        };
        field(&document.tool.name, NAME);
        field(&document.tool.source, SOURCE);
        if let Some(title) = &document.title {
            field(title, TITLE);
        }
        field(&document.description, DESCRIPTION);
        if !document
            .description
            .contains(document.summary.trim_end_matches(['.', '…']))
        {
            field(&document.summary, DESCRIPTION);
        }
        let mut left = MAX_ARGUMENTS;
        arguments(&document.input, 0, &mut left, &mut field);
        Self {
            document: Arc::clone(document),
            terms: counts.into_iter().collect(),
            length,
        }
    }
}

fn arguments(schema: &Value, depth: usize, left: &mut usize, field: &mut impl FnMut(&str, f32)) {
    let properties = schema
        .get("properties")
        .or_else(|| schema.get("items").and_then(|items| items.get("properties")))
        .and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if *left == 0 || depth == MAX_DEPTH {
            return;
        }
        *left -= 1;
        field(name, ARGUMENT);
        if let Some(text) = property.get("description").and_then(Value::as_str) {
            field(text, ARGUMENT_TEXT);
        }
        arguments(property, depth + 1, left, field);
    }
}

/// The index of one snapshot.
pub(super) struct Segment {
    analyses: Vec<Arc<Analysis>>,
    postings: HashMap<String, Vec<(u32, f32)>>,
    pub(super) names: Names,
    total_length: f32,
}

impl Segment {
    /// Builds the index; documents that `previous` knows unchanged are not analysed again.
    pub(super) fn new(
        source: &str,
        documents: &[Arc<ToolDocument>],
        previous: Option<&Self>,
        terms: &Terms,
    ) -> Self {
        let known: HashMap<&str, &Arc<Analysis>> = previous
            .into_iter()
            .flat_map(|segment| &segment.analyses)
            .map(|analysis| (analysis.document.tool.name.as_str(), analysis))
            .collect();
        let mut segment = Self {
            analyses: Vec::with_capacity(documents.len()),
            postings: HashMap::new(),
            names: Names::default(),
            total_length: 0.0,
        };
        for (at, document) in documents.iter().enumerate() {
            let Ok(at) = u32::try_from(at) else { break };
            let analysis = known
                .get(document.tool.name.as_str())
                .filter(|a| Arc::ptr_eq(&a.document, document) || a.document == *document)
                .map_or_else(|| Arc::new(Analysis::new(document, terms)), |a| Arc::clone(a));
            for (term, weight) in &analysis.terms {
                match segment.postings.get_mut(term) {
                    Some(list) => list.push((at, *weight)),
                    None => {
                        segment.postings.insert(term.clone(), vec![(at, *weight)]);
                    }
                }
            }
            segment.names.insert(source, &document.tool.name, at);
            segment.total_length += analysis.length;
            segment.analyses.push(analysis);
        }
        segment.names.seal();
        segment
    }

    pub(super) fn postings(&self, term: &str) -> &[(u32, f32)] {
        self.postings.get(term).map_or(&[], Vec::as_slice)
    }

    pub(super) fn length(&self, document: u32) -> f32 {
        usize::try_from(document)
            .ok()
            .and_then(|at| self.analyses.get(at))
            .map_or(0.0, |analysis| analysis.length)
    }

    pub(super) const fn total_length(&self) -> f32 {
        self.total_length
    }

    #[cfg(test)]
    pub(super) fn shares_analysis_with(&self, other: &Self, at: usize) -> bool {
        Arc::ptr_eq(&self.analyses[at], &other.analyses[at])
    }
}
