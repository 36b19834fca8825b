//! Names of crossings, for messages.

use contract::Service;

use crate::mpi::adapter;

/// The MPI function of a slot.
pub fn name(slot: u32) -> String {
    let slot = slot as usize;
    let name = of_service(slot).or_else(|| adapter::name_of(slot));
    name.map_or_else(|| format!("function {slot}"), str::to_owned)
}

/// The MPI function that a service carries out.
fn of_service(slot: usize) -> Option<&'static str> {
    let names = [
        (Service::Recv, "MPI_Recv"),
        (Service::SendReceive, "MPI_Sendrecv"),
        (Service::Probe, "MPI_Probe"),
        (Service::Mprobe, "MPI_Mprobe"),
        (Service::WaitOne, "MPI_Wait"),
        (Service::WaitAll, "MPI_Waitall"),
        (Service::WaitAny, "MPI_Waitany"),
        (Service::WaitSome, "MPI_Waitsome"),
        (Service::ErrorString, "MPI_Error_string"),
        (Service::Finalize, "MPI_Finalize"),
    ];
    let found = names.iter().find(|(service, _)| *service as usize == slot);
    found.map(|(_, name)| *name)
}
