from qrsc.cli import main

main()
