"""What is in a model file or an artifact folder, without running it.

reports.py     `inspect`: a report on either
model.py       operators, dims, unsupported operators, weights, cost formulas
picture.py     the memory plan as a picture
lengths.py     what lengths of ragged inputs mean for memory and arithmetic; lengths_picture.py draws them
flame.py       the profile of a run as a picture
"""
