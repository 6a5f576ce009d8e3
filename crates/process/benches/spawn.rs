//! How long a command takes from the order to the end of its tree.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use pentad_process::{CommandSpec, Spawner, SpawnerProgram};

fn spawn(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let exe = PathBuf::from(env!("CARGO_BIN_EXE_pentad-process-fixture"));
    let spawner = Spawner::launch(SpawnerProgram {
        exe,
        args: vec!["__spawner".into()],
    })
    .unwrap();
    criterion.bench_function("true, under a warden", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let child = spawner
                    .spawn(CommandSpec::new("/bin/true", "/", "bench"))
                    .await
                    .unwrap();
                child.wait().await
            })
        });
    });
    // What the system itself takes for the same program, without any guard.
    criterion.bench_function("true, plain", |bencher| {
        bencher.iter(|| std::process::Command::new("/bin/true").status().unwrap());
    });
}

criterion_group!(benches, spawn);
criterion_main!(benches);
