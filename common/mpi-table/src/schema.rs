//! The properties of a function in the table: its parameters with kind and direction, its class, and the code that
//! implements it.

/// An MPI function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name in the standard, such as `MPI_Send`.
    pub name: String,
    /// Heading above the function in the table.
    pub heading: String,
    /// Class of the function in the checkpoint protocol.
    pub class: Class,
    /// Code that implements the function.
    pub via: Via,
    /// Result of the C function.
    pub returns: Returns,
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// Slot in the gate's table.
    pub slot: usize,
}

impl Function {
    /// The function's row in a normal form without comments: each parameter is named by its position.
    pub fn row(&self) -> String {
        let place = |name: &str| {
            let at = self.params.iter().position(|param| param.name == name);
            at.map_or(String::new(), |at| at.to_string())
        };
        let params = self.params.iter().map(|param| {
            let direction = match param.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "inout",
            };
            let kind = spelled_as(KINDS, param.kind);
            let other = param.other.map_or("", |other| spelled_as(KINDS, other));
            let length = match &param.array {
                None => String::new(),
                Some(Length::Param(name)) => format!("[{}]", place(name)),
                Some(Length::CommSize(name)) => format!("[size({})]", place(name)),
                Some(Length::Neighbours(name, true)) => format!("[in({})]", place(name)),
                Some(Length::Neighbours(name, false)) => format!("[out({})]", place(name)),
                Some(Length::Bytes(bytes)) => format!("[{bytes} bytes]"),
                Some(Length::Opaque) => "[*]".to_owned(),
            };
            format!("{direction} {kind}/{other}{length}")
        });
        let params: Vec<String> = params.collect();
        let returns = match self.returns {
            Returns::Error => "error",
            Returns::Double => "double",
            Returns::Aint => "aint",
            Returns::Fint => "fint",
            Returns::Handle(kind) => spelled_as(KINDS, kind),
        };
        format!(
            "{} {} {} {}({}) -> {returns}",
            self.slot,
            spelled_as(CLASSES, self.class),
            spelled_as(VIAS, self.via),
            self.name,
            params.join(", "),
        )
    }
}

/// Code that implements a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The hand-written `upper_half::<snake_name>`; the front converts arguments.
    Core,
    /// Conversion and a crossing, both generated.
    Direct,
    /// A message with the function's name and "not supported"; then the error handler is called.
    Refuse,
}

/// Class of a function in the checkpoint protocol: what a checkpoint must take into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Uses this process only.
    Local,
    /// Starts or completes a point-to-point send.
    Send,
    /// Starts or completes a point-to-point receive, or probes.
    Receive,
    /// Sends and receives (MPI_Sendrecv).
    SendReceive,
    /// Completes requests.
    Completion,
    /// Blocking collective operation on its `comm`.
    Collective,
    /// Non-blocking collective operation on its `comm`.
    CollectiveNonblocking,
    /// Makes a persistent request that starts a non-blocking collective operation any number of times.
    CollectivePersistent,
    /// Creates or frees an object, locally.
    Object,
    /// Creates an object collectively.
    ObjectCollective,
    /// Accesses or synchronises a window.
    Window,
    /// Accesses a file, without other processes.
    File,
    /// Blocking collective operation of the processes that opened the file.
    FileCollective,
    /// Non-blocking collective operation of the processes that opened the file.
    FileCollectiveNonblocking,
    /// Dynamic processes.
    Process,
    /// Initialisation and finalisation.
    Environment,
    /// Tools interface. Errors are returned; no error handler is called.
    Tool,
}

impl Class {
    /// Whether the class is one of files. Errors are raised on the file or MPI_FILE_NULL, and not on a communicator.
    pub fn is_file(self) -> bool {
        matches!(
            self,
            Class::File | Class::FileCollective | Class::FileCollectiveNonblocking
        )
    }
}

/// Position in the file at which a function of MPI-IO reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positioning {
    /// An explicit offset, or the individual file pointer.
    Own,
    /// The shared file pointer.
    Shared,
}

/// Result of a C function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// An error code.
    Error,
    /// double (MPI_Wtime).
    Double,
    /// MPI_Aint (MPI_Aint_add).
    Aint,
    /// MPI_Fint (c2f functions).
    Fint,
    /// The handle of this kind (f2c functions).
    Handle(Kind),
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read by MPI.
    In,
    /// Written by MPI; a pointer in C.
    Out,
    /// Read and written by MPI; a pointer in C.
    InOut,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name in the standard.
    pub name: String,
    /// Kind, which determines the C type and the conversion.
    pub kind: Kind,
    /// Direction.
    pub direction: Direction,
    /// Number of entries, for an array.
    pub array: Option<Length>,
    /// Kind in the other form of the function, where the large-count form (MPI_Count for int, and the like) differs
    /// from the ordinary one.
    pub other: Option<Kind>,
}

/// Number of entries of an array parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// Value of that integer parameter; for an out parameter such as `outcount` the value after the call.
    Param(String),
    /// Size of that communicator's group; for an intercommunicator the size of the remote group.
    CommSize(String),
    /// Number of topology neighbours of that communicator: incoming ones if the flag is true, else outgoing ones.
    Neighbours(String, bool),
    /// Bytes of the caller's buffer for a string that MPI writes, in each supported ABI, the NUL included. A longer
    /// string of the library is truncated.
    Bytes(usize),
    /// Known to the function alone. The front passes the pointer unchanged.
    Opaque,
}

/// Kind of a parameter. A handle is an object in the upper half and a lower handle in a crossing. An integer of a kind
/// with special values is translated to the standard's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // MPI's own terms
pub enum Kind {
    Comm,
    Group,
    Datatype,
    Op,
    Errhandler,
    Info,
    Request,
    Message,
    Win,
    File,
    Session,
    /// Plain int without special values (counts, sizes, displacements).
    Int,
    /// int that may be MPI_UNDEFINED (colour, index, translated rank).
    IntOrUndefined,
    /// Rank, MPI_PROC_NULL, MPI_ANY_SOURCE, MPI_ROOT or MPI_UNDEFINED.
    Rank,
    /// Tag, or MPI_ANY_TAG.
    Tag,
    /// Logical value, 0 or 1.
    Flag,
    Keyval,
    /// An error code or class.
    ErrorCode,
    ThreadLevel,
    /// Result of a comparison.
    Comparison,
    /// MPI_CART ... or MPI_UNDEFINED.
    TopologyType,
    /// MPI_COMM_TYPE_SHARED ...
    SplitType,
    /// MPI_ORDER_C ...
    Order,
    /// MPI_DISTRIBUTE_BLOCK ...
    Distribution,
    /// MPI_DISTRIBUTE_DFLT_DARG or a number.
    DistributionArg,
    /// MPI_COMBINER_DUP ...
    Combiner,
    /// MPI_TYPECLASS_REAL ...
    TypeClass,
    /// MPI_LOCK_SHARED ...
    LockType,
    /// Window assertion bits.
    WindowAssert,
    /// File access mode bits.
    AccessMode,
    /// MPI_SEEK_SET ...
    Whence,
    /// MPI_T_VERBOSITY_USER_BASIC ...
    Verbosity,
    /// MPI_T_BIND_NO_OBJECT ...
    Bind,
    /// MPI_T_SCOPE_CONSTANT ...
    Scope,
    /// MPI_T_PVAR_CLASS_STATE ...
    PvarClass,
    Aint,
    Offset,
    /// MPI_Count.
    Count,
    /// Data buffer that MPI reads, MPI_IN_PLACE or MPI_BOTTOM.
    SendBuffer,
    /// Data buffer that MPI writes, MPI_IN_PLACE or MPI_BOTTOM.
    RecvBuffer,
    /// Edge weights, MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
    Weights,
    /// char*: a NUL-terminated string (in), or the caller's buffer (out).
    String,
    /// MPI_Status*, or MPI_Status[] with `array`. It may be MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
    Status,
    /// Any other pointer, passed unchanged (extra_state, attribute values). It is one level of indirection with any
    /// direction: the direction only says which side writes the memory that it points to.
    Pointer,
    /// Function pointer of the application.
    Callback,
    /// MPI_Fint.
    Fint,
    Double,
}

/// Headings under which all functions are new in MPI 4.
const HEADINGS_OF_MPI_4: &[&str] = &["Sessions", "Partitioned communication"];

/// Functions that are new in MPI 4 under older headings.
const OF_MPI_4: &[&str] = &[
    "MPI_Isendrecv",
    "MPI_Isendrecv_replace",
    "MPI_Comm_idup_with_info",
    "MPI_Info_create_env",
    "MPI_Info_get_string",
];

/// Functions that MPI 3.0 has removed.
const REMOVED: &[&str] = &[
    "MPI_Address",
    "MPI_Errhandler_create",
    "MPI_Errhandler_get",
    "MPI_Errhandler_set",
    "MPI_Type_extent",
    "MPI_Type_hindexed",
    "MPI_Type_hvector",
    "MPI_Type_lb",
    "MPI_Type_struct",
    "MPI_Type_ub",
];

impl Function {
    /// The name in snake case without `MPI_`, under which upper-half implements the function. No function's name is a
    /// keyword of Rust in this form.
    pub fn snake_name(&self) -> String {
        self.name.trim_start_matches("MPI_").to_ascii_lowercase()
    }

    /// The position that a function of MPI-IO uses, if it uses one. The names of these functions are regular.
    pub fn positioning(&self) -> Option<Positioning> {
        let name = self.name.strip_prefix("MPI_File_")?;
        let starts = |verb: &&str| name.starts_with(*verb);
        if name.contains("_shared") || name.contains("_ordered") {
            Some(Positioning::Shared)
        } else if ["read", "write", "iread", "iwrite", "seek", "get_position"]
            .iter()
            .any(starts)
        {
            Some(Positioning::Own)
        } else {
            None
        }
    }

    /// Whether the function looks whether something is complete and does not wait: the record of a run has its call
    /// with an outcome only.
    pub fn is_recorded_with_outcome(&self) -> bool {
        const LOOKS: [&str; 9] = [
            "MPI_Test",
            "MPI_Testall",
            "MPI_Testany",
            "MPI_Testsome",
            "MPI_Request_get_status",
            "MPI_Iprobe",
            "MPI_Improbe",
            "MPI_Parrived",
            "MPI_Win_test",
        ];
        LOOKS.contains(&self.name.as_str())
    }

    /// Whether the record of a run has the function's calls. Functions of windows and files, and those that any number
    /// of calls makes no difference to, are left out.
    pub fn is_recorded(&self) -> bool {
        match self.class {
            Class::Send
            | Class::Receive
            | Class::SendReceive
            | Class::Completion
            | Class::Collective
            | Class::CollectiveNonblocking
            | Class::CollectivePersistent
            | Class::ObjectCollective => !self.is_recorded_with_outcome(),
            _ => self.name == "MPI_Finalize",
        }
    }

    /// Whether the function is new in MPI 4. Open MPI 4 has none of these.
    pub fn is_of_mpi_4(&self) -> bool {
        self.is_large()
            || self.class == Class::CollectivePersistent
            || HEADINGS_OF_MPI_4.contains(&self.heading.as_str())
            || self.name.starts_with("MPI_Session_")
            || OF_MPI_4.contains(&self.name.as_str())
    }

    /// Whether the MPI 5.0 standard ABI has the function: not those that MPI 3.0 has removed, nor those for handles of
    /// Fortran, in whose place it has functions with other names.
    pub fn is_of_standard_abi(&self) -> bool {
        let is_fortrans = ["_c2f", "_f2c", "_c2f08", "_f082c"]
            .iter()
            .any(|end| self.name.ends_with(end));
        !is_fortrans && !REMOVED.contains(&self.name.as_str())
    }

    /// Whether the function is a large-count form of MPI 4. No other function's name ends in `_c`.
    pub fn is_large(&self) -> bool {
        self.name.ends_with("_c")
    }

    /// The name of the ordinary form.
    pub fn ordinary_name(&self) -> &str {
        self.name.strip_suffix("_c").unwrap_or(&self.name)
    }

    /// The function and its other forms: large-count, persistent, and both. They have the slots that follow.
    pub fn with_forms(self) -> Vec<Function> {
        let persistent = self.persistent_form();
        let ordinary = std::iter::once(self).chain(persistent);
        let mut forms: Vec<Function> = ordinary
            .flat_map(|form| {
                let large = form.large_form();
                std::iter::once(form).chain(large)
            })
            .collect();
        for i in 1..forms.len() {
            forms[i].slot = forms[0].slot + i;
        }
        forms
    }

    /// The persistent form of a non-blocking collective operation. It has an info object before the request.
    fn persistent_form(&self) -> Option<Function> {
        let is_nonblocking = self.class == Class::CollectiveNonblocking;
        let name = self.name.strip_prefix("MPI_I").filter(|_| is_nonblocking)?;
        let (first, rest) = name.split_at_checked(1)?;
        let mut persistent = self.clone();
        persistent.name = format!("MPI_{}{rest}_init", first.to_ascii_uppercase());
        persistent.class = Class::CollectivePersistent;
        let request = self.params.iter().position(|p| p.kind == Kind::Request)?;
        let info = Param {
            name: "info".to_owned(),
            kind: Kind::Info,
            direction: Direction::In,
            array: None,
            other: None,
        };
        persistent.params.insert(request, info);
        Some(persistent)
    }

    /// The non-blocking collective operation that a persistent form starts, without `_c`.
    pub fn started_as(&self) -> Option<String> {
        let name = self.ordinary_name().strip_prefix("MPI_")?;
        let name = name.strip_suffix("_init")?;
        (self.class == Class::CollectivePersistent)
            .then(|| format!("MPI_I{}", name.to_ascii_lowercase()))
    }

    /// Whether the function itself crosses to the lower half. The upper half implements the others by other functions.
    pub fn crosses(&self) -> bool {
        self.folded().is_none() && self.class != Class::CollectivePersistent
    }

    /// The large-count form, if the table gives one. Its parameters have the other kinds.
    fn large_form(&self) -> Option<Function> {
        let has_one = self.params.iter().any(|param| param.other.is_some());
        has_one.then(|| {
            let mut large = self.clone();
            large.name.push_str("_c");
            for param in &mut large.params {
                if let Some(other) = &mut param.other {
                    std::mem::swap(&mut param.kind, other);
                }
            }
            large
        })
    }

    /// Whether the function changes memory of a window atomically: by an operation, or by compare-and-swap.
    pub fn accumulates(&self) -> bool {
        let changes = |param: &Param| param.kind == Kind::Op || param.name == "compare_addr";
        self.class == Class::Window && self.params.iter().any(changes)
    }

    /// The counts of a large-count form, each with its datatype, if the ordinary form can serve it in any library
    /// (`upper_half::fold`). A count that fits an int is passed unchanged; a larger one becomes one element of a
    /// datatype that holds all elements. This is not possible for arrays of counts, for sizes in bytes, and for
    /// reductions, whose operations work on single elements.
    pub fn folded(&self) -> Option<Vec<(&Param, &Param)>> {
        let reduces =
            self.class != Class::Window && self.params.iter().any(|param| param.kind == Kind::Op);
        if !self.is_large() || self.class == Class::Object || reduces {
            return None;
        }
        let mut pairs = Vec::new();
        let mut others = self.params.iter().peekable();
        while let Some(param) = others.next() {
            match param.other {
                // An address has the size of a count.
                None | Some(Kind::Aint) => {}
                Some(_) => {
                    let datatype = others.peek().copied();
                    let is_single =
                        |param: &Param| param.direction == Direction::In && param.array.is_none();
                    let datatype = datatype.filter(|datatype| {
                        datatype.kind == Kind::Datatype && is_single(datatype) && is_single(param)
                    })?;
                    pairs.push((param, datatype));
                }
            }
        }
        let widened = self.params.iter().any(|param| param.other.is_some());
        widened.then_some(pairs)
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }
}

impl Kind {
    /// Whether the kind is one of MPI's opaque handles.
    pub fn is_handle(self) -> bool {
        matches!(
            self,
            Kind::Comm
                | Kind::Group
                | Kind::Datatype
                | Kind::Op
                | Kind::Errhandler
                | Kind::Info
                | Kind::Request
                | Kind::Message
                | Kind::Win
                | Kind::File
                | Kind::Session
        )
    }

    /// Whether a parameter of this kind is one pointer in C with any direction.
    pub fn is_pointer(self) -> bool {
        matches!(
            self,
            Kind::SendBuffer
                | Kind::RecvBuffer
                | Kind::Weights
                | Kind::String
                | Kind::Status
                | Kind::Pointer
                | Kind::Callback
        )
    }
}

/// Spelling of each kind in the table.
pub(crate) const KINDS: &[(&str, Kind)] = &[
    ("comm", Kind::Comm),
    ("group", Kind::Group),
    ("datatype", Kind::Datatype),
    ("op", Kind::Op),
    ("errhandler", Kind::Errhandler),
    ("info", Kind::Info),
    ("request", Kind::Request),
    ("message", Kind::Message),
    ("win", Kind::Win),
    ("file", Kind::File),
    ("session", Kind::Session),
    ("int", Kind::Int),
    ("int-or-undefined", Kind::IntOrUndefined),
    ("rank", Kind::Rank),
    ("tag", Kind::Tag),
    ("flag", Kind::Flag),
    ("keyval", Kind::Keyval),
    ("error", Kind::ErrorCode),
    ("thread-level", Kind::ThreadLevel),
    ("comparison", Kind::Comparison),
    ("topology", Kind::TopologyType),
    ("split-type", Kind::SplitType),
    ("order", Kind::Order),
    ("distribution", Kind::Distribution),
    ("distribution-arg", Kind::DistributionArg),
    ("combiner", Kind::Combiner),
    ("type-class", Kind::TypeClass),
    ("lock-type", Kind::LockType),
    ("win-assert", Kind::WindowAssert),
    ("access-mode", Kind::AccessMode),
    ("whence", Kind::Whence),
    ("verbosity", Kind::Verbosity),
    ("bind", Kind::Bind),
    ("scope", Kind::Scope),
    ("pvar-class", Kind::PvarClass),
    ("aint", Kind::Aint),
    ("offset", Kind::Offset),
    ("count", Kind::Count),
    ("sendbuf", Kind::SendBuffer),
    ("recvbuf", Kind::RecvBuffer),
    ("weights", Kind::Weights),
    ("string", Kind::String),
    ("status", Kind::Status),
    ("pointer", Kind::Pointer),
    ("callback", Kind::Callback),
    ("fint", Kind::Fint),
    ("double", Kind::Double),
];

/// Spelling of each class in the table.
pub(crate) const CLASSES: &[(&str, Class)] = &[
    ("local", Class::Local),
    ("send", Class::Send),
    ("receive", Class::Receive),
    ("send-receive", Class::SendReceive),
    ("completion", Class::Completion),
    ("collective", Class::Collective),
    ("collective-nonblocking", Class::CollectiveNonblocking),
    ("collective-persistent", Class::CollectivePersistent),
    ("object", Class::Object),
    ("object-collective", Class::ObjectCollective),
    ("window", Class::Window),
    ("file", Class::File),
    ("file-collective", Class::FileCollective),
    (
        "file-collective-nonblocking",
        Class::FileCollectiveNonblocking,
    ),
    ("process", Class::Process),
    ("environment", Class::Environment),
    ("tool", Class::Tool),
];

/// Spelling of each [`Via`] in the table.
pub(crate) const VIAS: &[(&str, Via)] = &[
    ("core", Via::Core),
    ("direct", Via::Direct),
    ("refuse", Via::Refuse),
];

/// The value with the spelling `name`.
pub(crate) fn spelled<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}

/// The spelling of `value`.
pub(crate) fn spelled_as<T: PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table
        .iter()
        .find(|(_, known)| *known == value)
        .map_or("", |(name, _)| name)
}
