//! Recipe discovery: 1,000 files in one root, cold and again.

#![allow(missing_docs, clippy::expect_used)]

use std::fs;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pentad_recipe::{Imports, Root, RootKind, Scanner};
use serde_json::json;

const RECIPES: usize = 1_000;

fn fill(root: &Path) -> anyhow::Result<()> {
    for number in 0..RECIPES {
        let document = json!({
            "description": format!("Counts the lines of kind {number} in a file and prints the first of them."),
            "args": ["file:path", "kind:enum(all,code,blank)", "limit:int"],
            "defaults": {"kind": "all", "limit": 10},
            "template": format!("count-{number} --kind {{kind}} --limit {{limit}} {{file}}"),
        });
        fs::write(root.join(format!("tool-{number:04}.json")), document.to_string())?;
    }
    Ok(())
}

fn scanner(root: &Path) -> Scanner {
    let roots = vec![Root::at(root, RootKind::User)];
    let imports = Imports {
        roots: roots.clone(),
        home: None,
    };
    Scanner::new(roots, imports)
}

fn discovery(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fill(folder.path()).expect("recipes on disk");
    let found = scanner(folder.path()).scan();
    assert_eq!(found.entries.len(), RECIPES, "{:?}", found.diagnostics().first());
    assert!(
        found.active("tool-0500").is_some(),
        "{:?}",
        found.diagnostics().first()
    );

    let mut group = c.benchmark_group("discover 1,000 recipes");
    group.sample_size(20);
    group.bench_function("first scan", |b| {
        b.iter_batched(
            || scanner(folder.path()),
            |mut scanner| scanner.scan(),
            BatchSize::PerIteration,
        );
    });
    let mut warm = scanner(folder.path());
    warm.scan();
    group.bench_function("scan again, nothing changed", |b| b.iter(|| warm.scan()));
    group.finish();
}

criterion_group!(benches, discovery);
criterion_main!(benches);
