//! The programs that are run for bugs of a greater depth.
#![forbid(unsafe_code)]

/// Programs of the protocols. The first of each is the smallest, for bugs of a greater depth.
pub const PROTOCOLS: &[(&str, &[&str])] = &[
    (
        "publishing",
        &[
            "queue-raw+execute",
            "execute+execute-beside",
            "execute-beside+execute-beside",
        ],
    ),
    (
        "cancelling",
        &[
            "queue+cancel-sync",
            "queue+disable-sync",
            "queue-delayed+cancel-delayed-sync",
        ],
    ),
    (
        "credits",
        &[
            "execute+execute",
            "execute+limits",
            "execute-grouped+execute-grouped",
            "meet+execute",
            "meet+meet",
        ],
    ),
    (
        "epoch and retire",
        &[
            "execute+attrs-once",
            "execute+attrs",
            "execute-beside+attrs-beside",
        ],
    ),
    (
        "caller-runs",
        &[
            "join-in-a-slot+flush-beside",
            "linger-in-a-slot+flush-beside",
            "join-in-a-slot+join-in-a-slot",
        ],
    ),
    (
        "wakers of tasks",
        &["await-handle+await-handle", "await-often+await-often"],
    ),
];
