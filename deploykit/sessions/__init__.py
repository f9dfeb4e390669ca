"""What a user holds after `deploykit.open`.

session.py       `Session`, and `open`
function.py      one function of an artifact: arrays in, arrays out
interface.py     what a session takes and gives, as data and as text
structure.py     how values map to the tensors of the C interface
strings.py       strings as they are stored in memory
ragged_array.py  `Ragged`: instances of different lengths (also ragged_ports.py)
device_array.py  tensors that stay on a GPU
instances.py     dynamic models: instances in, results out
submissions.py   instances that join while others run
tasks/           texts, pictures and sound in, answers out
"""
