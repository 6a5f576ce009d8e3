//! Command templates: reading one, and expanding one that was read.

#![allow(missing_docs, clippy::expect_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pentad_template::{CommandLine, Values, split_words};
use serde_json::{Value, json};

/// Has six placeholders: plain, in a word, with a default, quoted, and a conditional.
const TEMPLATE: &str = "ffmpeg -i {input} -ss {start=0} -t {length=10} -vf 'scale={width}:-1' {fast?--preset ultrafast:} {output}";

fn values() -> Values {
    let given = json!({
        "input": "/srv/media/holiday film.mp4", "start": 12, "width": 1280, "fast": true,
        "output": "/tmp/clip.mp4",
    });
    match given {
        Value::Object(fields) => fields,
        _ => Values::new(),
    }
}

fn expansion(c: &mut Criterion) {
    let values = values();
    let line = CommandLine::read(TEMPLATE);
    let argv = line.expand(&values).expect("every placeholder has a value");
    assert!(argv.iter().any(|word| word == "scale=1280:-1"), "{argv:?}");
    c.bench_function("expand a parsed template of six placeholders", |b| {
        b.iter(|| black_box(&line).expand(black_box(&values)));
    });
    c.bench_function("read a template of six placeholders", |b| {
        b.iter(|| CommandLine::read(black_box(TEMPLATE)));
    });
    c.bench_function("split a line into words", |b| {
        b.iter(|| split_words(black_box(TEMPLATE)))
    });
}

criterion_group!(benches, expansion);
criterion_main!(benches);
