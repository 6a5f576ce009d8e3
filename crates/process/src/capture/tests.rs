use proptest::prelude::*;

use super::*;

fn limits(head_bytes: usize, tail_bytes: usize) -> CaptureLimits {
    CaptureLimits {
        head_bytes,
        tail_bytes,
        spill: None,
        spill_cap: u64::MAX,
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A reader that returns these chunks one by one.
fn chunks(chunks: &[Vec<u8>]) -> impl AsyncRead + Unpin {
    tokio_util::io::StreamReader::new(tokio_stream_of(chunks.to_vec()))
}

fn tokio_stream_of(chunks: Vec<Vec<u8>>) -> impl futures::Stream<Item = io::Result<bytes::Bytes>> + Unpin {
    futures::stream::iter(chunks.into_iter().map(|chunk| Ok(bytes::Bytes::from(chunk))))
}

proptest! {
    // Each case makes a directory and a runtime.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn head_tail_counts_and_spill_are_exact(
        parts in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..50), 0..20),
        head in 0usize..60,
        tail in 0usize..60,
        spill_cap in 0u64..600,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let limits = CaptureLimits { spill: Some(path.clone()), spill_cap, ..limits(head, tail) };
        let captured = block_on(capture(chunks(&parts), limits));
        let all = parts.concat();
        prop_assert_eq!(captured.total_bytes, all.len() as u64);
        prop_assert_eq!(captured.total_lines as usize, all.split_inclusive(|byte| *byte == b'\n').count());
        prop_assert_eq!(&captured.head[..], &all[..head.min(all.len())]);
        let tail_start = all.len().saturating_sub(tail).max(captured.head.len());
        prop_assert_eq!(&captured.tail[..], &all[tail_start..]);
        prop_assert_eq!(captured.problem, None);
        if all.len() <= head + tail {
            prop_assert_eq!(captured.spilled, None);
            prop_assert!(!path.exists());
        } else {
            let kept = all.len().min(spill_cap as usize);
            prop_assert_eq!(captured.spilled.as_ref(), Some(&path));
            prop_assert_eq!(std::fs::read(&path).unwrap(), &all[..kept]);
            prop_assert_eq!(captured.spill_truncated, kept < all.len());
        }
    }
}

#[test]
fn a_spill_that_cannot_be_made_costs_the_middle_only() {
    let limits = CaptureLimits {
        spill: Some("/nowhere/at/all".into()),
        ..limits(2, 2)
    };
    let captured = block_on(capture("abcdef".as_bytes(), limits));
    assert_eq!((&*captured.head, &*captured.tail), (&b"ab"[..], &b"ef"[..]));
    assert_eq!(captured.spilled, None);
    insta::assert_snapshot!(
        captured.problem.unwrap(),
        @"The whole output is not kept, /nowhere/at/all cannot be made: No such file or directory (os error 2)."
    );
}

#[test]
fn a_stream_that_nobody_closes_is_left_when_told() {
    block_on(async {
        let (mut writer, reader) = tokio::io::duplex(1024);
        writer.write_all(b"there by then").await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let captured = capture_until(reader, limits(100, 0), &stop).await;
        assert_eq!(captured.head, b"there by then");
        assert!(captured.left_open);
    });
}
