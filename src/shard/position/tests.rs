use super::*;

/// The order of a source, with all of its fields or with those that each order has.
fn order(has_all: bool) -> OrderId {
    let given = |name: &str| has_all.then(|| name.to_owned());
    OrderId {
        shuffle: "window".into(),
        seed: 17,
        pool: 4,
        lanes: 2,
        rows: 1_000,
        filter: given("label < 3"),
        denied: given("some rows"),
        denied_from: given("more rows"),
        samples: given("windows of 4 rows"),
        balance: given("tokens").into_iter().collect(),
        piece_rows: has_all.then_some(512),
        skipped: has_all.then_some(SkippedRows { epoch: 1, from: 64, to: 128 }).into_iter().collect(),
    }
}

/// A source of which `rows` rows were delivered and as many are left out.
fn source(pass: u64, rows: u64, has_all: bool) -> SavedSource {
    let table = SavedTable { id: "a table".into(), version: 7, opened_as: has_all.then(|| "main".into()) };
    let files: SavedFiles =
        serde_json::from_value(serde_json::json!({"files": 3, "rows": 1000, "sums": "00c0ffee"})).unwrap();
    SavedSource {
        fingerprint: "f00d".into(),
        files: has_all.then_some(files),
        table: has_all.then(|| table.clone()),
        tables: if has_all { vec![table.clone(), table] } else { Vec::new() },
        order: order(has_all),
        first_pass: pass,
        rows,
        skipped: if has_all { rows } else { 0 },
        cache_tier: has_all.then(|| "pixels".into()),
    }
}

fn mix(has_all: bool) -> SavedMix {
    let origin = Origin { epoch: 2, step: 9, passes: vec![1, 5], taken: vec![3, 0] };
    SavedMix {
        step: 11,
        stop: if has_all { Stop::Last } else { Stop::First },
        repeat: has_all,
        schedule: vec![(0, vec![1, 3]), (8, vec![3, 1])],
        random_shares: has_all.then_some(0),
        set_from: has_all.then_some(8),
        max_passes: if has_all { vec![None, Some(2)] } else { Vec::new() },
        skipped: has_all.then_some(SkippedSteps { from: 3, to: 5 }).into_iter().collect(),
        origin: has_all.then_some(origin),
    }
}

#[test]
fn a_position_is_read_as_it_was_written() {
    let split = SavedSplit { global_batch_size: 64, world: 2, drop_last: true };
    for has_all in [false, true] {
        let of_one = Position::new(3, 640, vec![source(3, 640, has_all)], split, None);
        let sources = vec![source(4, 600, has_all), source(9, 40, has_all)];
        let of_mix = Position::new(3, 640, sources, split, Some(mix(has_all)));
        for position in [of_one, of_mix] {
            let json = serde_json::to_string(&position).unwrap();
            assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), position, "{json}");
            // A field that says nothing is left out.
            let says_less = !json.contains("skipped") && !json.contains("table") && !json.contains("files");
            assert_eq!(says_less, !has_all, "{json}");
        }
    }
}
