"""What platforms do on running machines, whoever provides them: build lanes, guard and fill devices, run trials."""
