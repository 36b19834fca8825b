//! Names of the gate's slots, for messages.

use contract::Service;

use super::adapter;

/// The MPI function that a slot serves. A service that several MPI functions use has the name of the simplest.
pub fn mpi_function(slot: usize) -> Option<&'static str> {
    let services = [
        (Service::Init, "MPI_Init"),
        (Service::Finalize, "MPI_Finalize"),
        (Service::Recv, "MPI_Recv"),
        (Service::SendReceive, "MPI_Sendrecv"),
        (Service::Probe, "MPI_Probe"),
        (Service::Mprobe, "MPI_Mprobe"),
        (Service::WaitOne, "MPI_Wait"),
        (Service::WaitAll, "MPI_Waitall"),
        (Service::WaitAny, "MPI_Waitany"),
        (Service::WaitSome, "MPI_Waitsome"),
        (Service::ErrorString, "MPI_Error_string"),
    ];
    let service = services.iter().find(|(s, _)| *s as usize == slot);
    service
        .map(|(_, name)| *name)
        .or_else(|| adapter::name_of(slot))
}
