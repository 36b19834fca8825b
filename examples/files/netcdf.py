##Command: /usr/bin/python3 {source}
##Ranks: 2
##Mpi: openmpi
##Cut: after 5 to 40 lines of steps.0 with step
##Kill: later
##Modes: plain, continue, restart, migrate
##Timeout: 120
##Package: python3-netcdf4
##Shows: netCDF, which overwrites variables and attributes in files of both of its formats, one closed between two steps and one always open; a step that is done twice gives another sum
import netCDF4
import numpy
from mpi4py import MPI

PRIME, STEPS, SIZE = 1000003, 60, 4000
comm = MPI.COMM_WORLD
rank = comm.Get_rank()
FORMATS = ["NETCDF4", "NETCDF3_CLASSIC"]


def name(format, way):
    return "%s.%s.%d.nc" % (format.lower(), way, rank)


def make(format, way):
    file = netCDF4.Dataset(name(format, way), "w", format=format)
    file.createDimension("cell", SIZE)
    field = file.createVariable("field", "i4", ("cell",))
    field[:] = numpy.arange(SIZE)
    file.step = numpy.int32(-1)
    return file


def advance(file, step):
    assert file.step == step - 1, (file.filepath(), file.step, step)
    field = file["field"]
    field[step::7] = (field[step::7].astype("i8") * 31 + step) % PRIME
    file.step = numpy.int32(step)


opened = [make(format, "open") for format in FORMATS]
for format in FORMATS:
    make(format, "closed").close()

for step in range(STEPS):
    for file in opened:
        advance(file, step)
        file.sync()
    for format in FORMATS:
        with netCDF4.Dataset(name(format, "closed"), "r+") as file:
            advance(file, step)
    comm.Barrier()
    with open("steps.%d" % rank, "a") as steps:
        steps.write("step %d\n" % step)

for file in opened:
    file.close()
total = 0
for format in FORMATS:
    for way in "open", "closed":
        with netCDF4.Dataset(name(format, way)) as file:
            total += int((file["field"][:].astype("i8") * numpy.arange(SIZE)).sum())
lines = open("steps.%d" % rank).read().splitlines()
assert lines == ["step %d" % step for step in range(STEPS)], lines
for line in comm.gather("rank %d: %d" % (rank, total)) or []:
    print(line)
